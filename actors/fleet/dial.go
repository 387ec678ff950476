package fleet

import (
	"context"
	"net"

	"weir/actors/remote"
)

// dialsAtOnce is how many nodes of a fleet connect at the same time. They share processors, where agents have machines
// of their own: if thousands of handshakes went on at once, none would end in time.
const dialsAtOnce = 64

// queued is the dialer of a node that takes turns with the others of its fleet.
type queued struct {
	remote.Dialer
	turns chan struct{}
}

// Upgrade implements remote.Dialer.
func (q queued) Upgrade(ctx context.Context, addr, path, protocol string) (net.Conn, error) {
	select {
	case q.turns <- struct{}{}:
		defer func() { <-q.turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return q.Dialer.Upgrade(ctx, addr, path, protocol)
}
