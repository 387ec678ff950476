package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// ErrRival is returned when another live process is the same replica, as after a
// folder and its configuration were copied.
var ErrRival = errors.New("another process is running as this replica")

const (
	// meetPatience is how long Alone waits for peers that do not answer.
	meetPatience = 3 * time.Second
	// rivalPings are sent at least before one that does not answer is taken for gone:
	// some are lost.
	rivalPings = 3
	// rivalPatience is for how long they are sent at least: a rival may be short of
	// processor time. A replica that begins elsewhere waits as long for who it was before.
	rivalPatience = time.Second
)

// notice remembers, until Alone looks, that the cluster knows this replica at another
// address. It is called with memberlist's locks held.
func (g *Gossip) notice(other *memberlist.Node) {
	entry, err := entryOf(other)
	if err != nil {
		g.log.Warn("gossip member unreadable", "replica", other.Name, "cause", err)
		return
	}
	g.rivalMu.Lock()
	defer g.rivalMu.Unlock()
	if g.rivals != nil {
		g.rivals[entry.endpoint] = entry.member
	}
}

// Alone returns once every peer has been tried, and an ErrRival if another live
// process is this replica: this one must not begin its work then. An address at
// which nobody answers is one that the replica had before.
func (g *Gossip) Alone(ctx context.Context) error {
	timer := time.NewTimer(g.config.meetPatience)
	defer timer.Stop()
	select {
	case <-g.met:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	g.rivalMu.Lock()
	rivals := g.rivals
	g.rivals = nil
	g.rivalMu.Unlock()
	for endpoint, rival := range rivals {
		if !g.answers(ctx, endpoint) {
			continue
		}
		// The id is the rival's: this process says no farewell in its name.
		g.mu.Lock()
		g.left = true
		g.mu.Unlock()
		return fmt.Errorf("%w: replica %s already runs at %s (gossip at %s): stop that process first, or start this one with its own id and folder",
			ErrRival, rival.ID, rival.Address, endpoint)
	}
	return nil
}

// answers reports whether a process at endpoint says that it is this replica.
func (g *Gossip) answers(ctx context.Context, endpoint netip.AddrPort) bool {
	patience := time.NewTimer(g.config.rivalPatience)
	defer patience.Stop()
	for pings, over := 1, false; !over || pings <= rivalPings; pings++ {
		_, err := g.list.Ping(string(g.self), net.UDPAddrFromAddrPort(endpoint))
		if err == nil {
			return true
		}
		var silent memberlist.NoPingResponseError
		if !errors.As(err, &silent) && pings >= rivalPings {
			return false // It cannot be asked.
		}
		select {
		case <-ctx.Done():
			return false
		case <-patience.C:
			over = true
		default:
		}
	}
	return false
}
