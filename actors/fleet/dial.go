package fleet

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"weir/actors/remote"
)

// dialsAtOnce is how many nodes of a fleet connect at the same time. They share processors, where agents have machines
// of their own: if thousands of handshakes went on at once, none would end in time.
const dialsAtOnce = 64

// refusalLasts is for how long an address that has refused one node of a fleet refuses the others too: thousands of them
// that try a replica which is down would take processors that the others need.
const refusalLasts = 200 * time.Millisecond

// exchange has the nodes of a fleet take turns to connect, and remembers who refused them.
type exchange struct {
	// turns has an entry for each connection that is being made.
	turns chan struct{}

	mu sync.Mutex
	// refused are the last refusals, by address.
	refused map[string]refusal
}

type refusal struct {
	at  time.Time
	err error
}

func newExchange(atOnce int) *exchange {
	return &exchange{turns: make(chan struct{}, atOnce), refused: map[string]refusal{}}
}

// refusal returns why an address refuses connections; nil: it may accept one.
func (e *exchange) refusal(addr string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.refused[addr]; time.Since(r.at) < refusalLasts {
		return r.err
	}
	return nil
}

func (e *exchange) refuse(addr string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused[addr] = refusal{time.Now(), err}
}

// queued is the dialer of a node that takes turns with the others of its fleet.
type queued struct {
	remote.Dialer
	exchange *exchange
}

// Upgrade implements remote.Dialer.
func (q queued) Upgrade(ctx context.Context, addr, path, protocol string) (net.Conn, error) {
	select {
	case q.exchange.turns <- struct{}{}:
		defer func() { <-q.exchange.turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := q.exchange.refusal(addr); err != nil {
		return nil, err
	}
	conn, err := q.Dialer.Upgrade(ctx, addr, path, protocol)
	if errors.Is(err, syscall.ECONNREFUSED) {
		q.exchange.refuse(addr, err)
	}
	return conn, err
}
