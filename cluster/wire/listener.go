package wire

import (
	"fmt"
	"net"
	"sync"
)

// listener is the queue of one protocol's connections. It implements
// net.Listener.
type listener struct {
	addr net.Addr

	mu     sync.Mutex // guards closed, and sends to queue against Close
	closed bool
	queue  chan net.Conn
}

func newListener(addr net.Addr, backlog int) *listener {
	return &listener{addr: addr, queue: make(chan net.Conn, backlog)}
}

// deliver queues conn for Accept. It fails if the queue is full or closed.
func (l *listener) deliver(conn net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	select {
	case l.queue <- conn:
		return nil
	default:
		return fmt.Errorf("%d connections already waiting to be accepted", cap(l.queue))
	}
}

// Accept returns the next connection, or net.ErrClosed after Close.
func (l *listener) Accept() (net.Conn, error) {
	conn, ok := <-l.queue
	if !ok {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	return conn, nil
}

// Close refuses further connections of the protocol and closes those that have
// not been accepted. The port stays open for the other protocols.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.queue)
	for conn := range l.queue {
		_ = conn.Close() // It was never used, so the error does not matter.
	}
	return nil
}

// Addr returns the address of the port.
func (l *listener) Addr() net.Addr { return l.addr }
