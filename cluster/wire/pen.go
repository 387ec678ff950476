package wire

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// pen keeps connections of silent strangers open when many come at once, instead of closing them: whoever holds
// thousands of connections opens each anew as soon as it is closed, and to accept one costs far more than to keep
// it. What is in the pen is not read, and has no room at the door.
type pen struct {
	mu sync.Mutex
	// held are closed in this order.
	held  []penned
	timer *time.Timer
	// second is when the present second began, and refused how many came in it.
	second  time.Time
	refused int
	closed  bool
}

type penned struct {
	conn net.Conn
	due  time.Time
}

const (
	// penFrom is how many silent strangers a second are closed at once, as those that are just slow should be.
	penFrom = 100
	// penTime is how long others are kept, and penSize how many, with no more than an eighth of the descriptors that
	// the process may have.
	penTime = 15 * time.Second
	penSize = 4096
)

// roomInPen returns how many connections the pen may hold.
func roomInPen() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0
	}
	return int(min(penSize, files.Cur/8))
}

// put keeps a connection, or returns false if it is to be closed now.
func (p *pen) put(conn net.Conn, room int, now time.Time) (kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.second) >= time.Second {
		p.second, p.refused = now, 0
	}
	p.refused++
	if p.closed || p.refused <= penFrom && len(p.held) == 0 || len(p.held) >= room {
		return false
	}
	p.held = append(p.held, penned{conn, now.Add(penTime)})
	if p.timer == nil {
		p.timer = time.AfterFunc(penTime, p.release)
	}
	return true
}

// release closes the connections that have been kept for long enough.
func (p *pen) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.held) > 0 && !p.held[0].due.After(now) {
		_ = p.held[0].conn.Close() // nothing was written
		p.held = p.held[1:]
	}
	if p.timer = nil; len(p.held) > 0 {
		p.timer = time.AfterFunc(p.held[0].due.Sub(now), p.release)
	}
}

// close closes all.
func (p *pen) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, h := range p.held {
		_ = h.conn.Close() // nothing was written
	}
	p.held = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}
