package raftstore

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// wire is a replica's connection to the others, which a test can cut, and hold:
// then what arrives is not read, as if the process were paused.
type wire struct {
	listener net.Listener
	// requests come from other replicas, answers are to our requests.
	requests, answers valve

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// valve is open at first.
type valve struct{ held sync.RWMutex }

func (v *valve) hold()    { v.held.Lock() }
func (v *valve) release() { v.held.Unlock() }

// valveConn delivers what it reads when its valve is open.
type valveConn struct {
	net.Conn
	valve *valve
}

func (c valveConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.valve.held.RLock()
	defer c.valve.held.RUnlock()
	return n, err
}

func (w *wire) Accept() (net.Conn, error) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return nil, err
		}
		if w.keep(conn) {
			return valveConn{conn, &w.requests}, nil
		}
	}
}

func (w *wire) Addr() net.Addr { return w.listener.Addr() }

func (w *wire) Close() error { return w.listener.Close() }

func (w *wire) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if !w.keep(conn) {
		return nil, fmt.Errorf("dial %s: cut off", address)
	}
	return valveConn{conn, &w.answers}, nil
}

func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = conn.Close()
		return false
	}
	w.conns = append(w.conns, conn)
	return true
}

// setCut ends every connection of the replica and lets none come, or heals it.
func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, conn := range w.conns {
			_ = conn.Close()
		}
		w.conns = nil
	}
}
