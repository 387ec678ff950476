package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"weir/cluster/identity"
)

// The reasons for which connections are refused, in Stats.
const (
	// RefusedCrowded: their address, their subnet or all strangers have too many.
	RefusedCrowded = "crowded"
	// RefusedSilent: they sent no ClientHello in time.
	RefusedSilent = "silent"
	// RefusedSlow: their handshake did not end in time.
	RefusedSlow = "slow"
	// RefusedRejected: they showed no valid certificate of the cluster, or broke off.
	RefusedRejected = "rejected"
	// RefusedUser: the user has too many.
	RefusedUser = "user"
	// RefusedBacklog: too many of their protocol wait to be served.
	RefusedBacklog = "backlog"
	// RefusedAccept: the system has no room for them, such as file descriptors.
	RefusedAccept = "accept"
)

var (
	errCrowded = errors.New("too many connections without a certificate, and this one was the most dispensable")
	errSlow    = errors.New("the handshake did not end in time")
	errUser    = errors.New("too many connections of one user")
)

// Stats counts connections.
type Stats struct {
	// Strangers and Members are how many connections are in their handshake, by whether their address
	// is that of a member.
	Strangers, Members int
	// Refused counts refused connections by reason.
	Refused map[string]uint64
}

// memberPatience multiplies the time for a handshake from the address of a member. When a replica comes back, thousands
// of agents connect at once: if the last of them gave up before their turn, they would only come again.
const memberPatience = 4

// gate lets connections wait, and take turns, as a door decides.
type gate struct {
	hello, handshake time.Duration
	perUser          int

	mu       sync.Mutex
	door     *door
	visitors map[*guest]*visitor
	users    map[identity.Identity]int
	refused  map[string]uint64
	wake     *time.Timer
}

func newGate(config Config) *gate {
	g := &gate{
		hello: config.HelloTimeout, handshake: config.HandshakeTimeout, perUser: config.Limits.User,
		door: newDoor(config.Limits), visitors: map[*guest]*visitor{}, users: map[identity.Identity]int{}, refused: map[string]uint64{},
	}
	for _, why := range []string{RefusedCrowded, RefusedSilent, RefusedSlow, RefusedRejected, RefusedUser, RefusedBacklog, RefusedAccept} {
		g.refused[why] = 0
	}
	return g
}

func (g *gate) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Strangers: g.door.strangers, Members: g.door.members, Refused: maps.Clone(g.refused)}
}

func (g *gate) countRefusal(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[why]++
}

// visitor is a connection at the gate. During its handshake it computes only when it is its turn.
type visitor struct {
	net.Conn
	gate  *gate
	guest *guest
	addr  netip.Addr
	// ctx is done, and nothing more is read or written, when the gate wants it to go.
	ctx  context.Context
	stop context.CancelCauseFunc
	turn chan struct{}
	// hurried: the ClientHello is due. heard: it has come. inside: the handshake is over.
	hurried, heard, inside bool
	// first is the first byte if ahead says that it was read ahead.
	first [1]byte
	ahead bool

	who  identity.Identity
	gone sync.Once
}

// enter registers an accepted connection. The handshake ends at the latest with ctx.
func (g *gate) enter(ctx context.Context, conn net.Conn) *visitor {
	now := time.Now()
	v := &visitor{Conn: conn, gate: g, turn: make(chan struct{}, 1)}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		v.addr = tcp.AddrPort().Addr()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	in, out := g.door.enter(v.addr, now)
	v.guest, v.hurried = in, !in.origin.known
	until := now.Add(g.handshake)
	if in.origin.known {
		until = now.Add(memberPatience * g.handshake)
	}
	ctx, stop := context.WithCancelCause(ctx)
	ctx, cancel := context.WithDeadlineCause(ctx, until, errSlow)
	v.ctx, v.stop = ctx, func(cause error) { stop(cause); cancel() }
	g.visitors[in] = v
	if out != nil {
		g.visitors[out].stop(errCrowded) // Which ends its ctx before the lock is released.
		g.grant(now)
	}
	return v
}

// leave ends the visit of a connection that is refused, and returns the reason.
func (g *gate) leave(v *visitor, err error) (why string, cause error) {
	why, cause = RefusedRejected, err
	// The end of ctx sets a deadline in the past, which is not the reason.
	if ended := context.Cause(v.ctx); ended != nil {
		cause = ended
	}
	switch {
	case errors.Is(cause, errCrowded):
		why = RefusedCrowded
	case errors.Is(cause, errSlow):
		why = RefusedSlow
	case errors.Is(cause, errUser):
		why = RefusedUser
	case errors.Is(cause, os.ErrDeadlineExceeded):
		why, cause = RefusedSilent, fmt.Errorf("sent nothing within %s", g.hello)
	}
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[why]++
	g.door.leave(v.guest, why != RefusedUser, now)
	delete(g.visitors, v.guest)
	g.grant(now)
	return why, cause
}

// admit ends the visit of a connection that has shown who it is; of nobody in plaintext.
func (g *gate) admit(v *visitor, who identity.Identity) error {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	person := who.Role == identity.User || who.Role == identity.Operator
	if person && g.users[who] >= g.perUser {
		return fmt.Errorf("%w: %s has %d", errUser, who, g.perUser)
	}
	v.who, v.inside = who, true
	g.door.leave(v.guest, false, now)
	delete(g.visitors, v.guest)
	switch {
	case person:
		g.users[who]++
	case who.Role != 0:
		g.door.settle(v.addr, now)
	}
	g.grant(now)
	return nil
}

// part records the end of an admitted connection.
func (g *gate) part(v *visitor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch v.who.Role {
	case identity.User, identity.Operator:
		if g.users[v.who]--; g.users[v.who] == 0 {
			delete(g.users, v.who)
		}
	case identity.Replica, identity.Agent, identity.Gateway:
		g.door.part(v.addr, time.Now())
	}
}

// expect makes an address known for as long as the gate is there.
func (g *gate) expect(addr netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.door.settle(addr, time.Now())
}

// grant lets those handshakes go on whose turn it is. The caller holds the lock.
func (g *gate) grant(now time.Time) {
	for {
		next, wait := g.door.next(now)
		if next == nil {
			if wait > 0 {
				g.wakeAfter(wait)
			}
			return
		}
		g.visitors[next].turn <- struct{}{}
	}
}

func (g *gate) wakeAfter(wait time.Duration) {
	if g.wake != nil {
		g.wake.Reset(wait)
		return
	}
	g.wake = time.AfterFunc(wait, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.grant(time.Now())
	})
}

// close stops the timer of a gate that nobody enters any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wake != nil {
		g.wake.Stop()
	}
}

// listen waits until the peer says something.
func (v *visitor) listen() error {
	_, err := io.ReadFull(v.Conn, v.first[:])
	v.ahead = err == nil
	return err
}

// hear is called with each ClientHello. The handshake goes on when hear returns.
func (v *visitor) hear(*tls.ClientHelloInfo) (*tls.Config, error) {
	v.heard = true
	if err := v.Conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return nil, v.await()
}

// await waits for the turn of the handshake.
func (v *visitor) await() error {
	v.gate.mu.Lock()
	if v.ctx.Err() != nil {
		// Perhaps the door has removed the guest.
		v.gate.mu.Unlock()
		return context.Cause(v.ctx)
	}
	v.gate.door.ask(v.guest)
	v.gate.grant(time.Now())
	v.gate.mu.Unlock()
	select {
	case <-v.turn:
		return nil
	case <-v.ctx.Done():
		return context.Cause(v.ctx)
	}
}

// Read implements net.Conn. During the handshake others compute while it waits for bytes.
func (v *visitor) Read(p []byte) (int, error) {
	if v.ahead && len(p) > 0 {
		v.ahead = false
		return copy(p, v.first[:]), nil
	}
	if v.inside || !v.heard {
		return v.Conn.Read(p)
	}
	now := time.Now()
	v.gate.mu.Lock()
	v.gate.door.rest(v.guest, now)
	v.gate.grant(now)
	v.gate.mu.Unlock()
	n, err := v.Conn.Read(p)
	if err == nil {
		err = v.await()
	}
	return n, err
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.gate.mu.Lock() // A revoked certificate may close it while it is admitted.
	inside := v.inside
	v.gate.mu.Unlock()
	if inside {
		v.gone.Do(func() { v.gate.part(v) })
	}
	return v.Conn.Close()
}
