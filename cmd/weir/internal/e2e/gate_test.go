package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gate is on the way between agents and one replica. What the replica says can be
// held up, as a slow network does.
type gate struct {
	listener net.Listener
	replica  string

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	holding bool
	// held counts the bytes that wait.
	held        int
	connections []net.Conn
	copying     sync.WaitGroup
}

// newGate opens a gate to a replica at an address of its own.
func newGate(t *testing.T, replica string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener, replica: replica}
	g.changed = sync.NewCond(&g.mu)
	g.copying.Go(g.accept)
	t.Cleanup(g.close)
	return g
}

func (g *gate) address() string { return g.listener.Addr().String() }

// hold keeps back what the replica says from now on, until let.
func (g *gate) hold() { g.set(func() { g.holding, g.held = true, 0 }) }

func (g *gate) let() { g.set(func() { g.holding = false }) }

// waiting is how many bytes are held back.
func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *gate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	g.changed.Broadcast()
}

func (g *gate) close() {
	g.set(func() { g.closed = true })
	_ = g.listener.Close()
	g.mu.Lock()
	for _, conn := range g.connections {
		_ = conn.Close()
	}
	g.mu.Unlock()
	g.copying.Wait()
}

func (g *gate) accept() {
	for {
		near, err := g.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", g.replica)
		if err != nil {
			_ = near.Close()
			continue
		}
		g.set(func() { g.connections = append(g.connections, near, far) })
		g.copying.Go(func() { copyAll(far, near) })
		g.copying.Go(func() { copyAll(held{near, g}, far) })
	}
}

// copyAll copies until either end is closed, and closes the other.
func copyAll(to io.WriteCloser, from io.ReadCloser) {
	_, _ = io.Copy(struct{ io.Writer }{to}, from)
	_, _ = to.Close(), from.Close()
}

// held writes when its gate lets it.
type held struct {
	net.Conn
	gate *gate
}

func (h held) Write(data []byte) (int, error) {
	g := h.gate
	g.mu.Lock()
	if g.holding {
		g.held += len(data)
	}
	for g.holding && !g.closed {
		g.changed.Wait()
	}
	g.mu.Unlock()
	return h.Conn.Write(data)
}
