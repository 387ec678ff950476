package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/cluster/identity"
	"weir/messages/remotepb"
)

// Remote connects one actor system with its peers. It is safe for concurrent
// use.
type Remote struct {
	system   *actor.ActorSystem
	config   Config
	limits   Limits
	self     string
	log      *slog.Logger
	counters counters
	news     news

	// published is replaced as a whole with mu held, and read without mu.
	published atomic.Pointer[map[string]publication]

	mu sync.RWMutex
	// streams holds the session of each connected peer, by name. `last` is the number of the latest
	// session. `wanted` has the peers of Connect.
	streams map[string]*session
	last    uint64
	wanted  map[string]context.CancelFunc
	closed  bool

	tasks sync.WaitGroup
}

// publication is an actor that peers can reach.
type publication struct {
	pid   *actor.PID
	inbox *Inbox
	roles []identity.Role
}

// Inbound is a message from a peer, as the addressed actor receives it. ctx.Respond answers a
// request, with a protobuf message or an error; the peer's Request returns such an error as
// *ErrRefused.
type Inbound struct {
	// From is the identity of the sending process, from its certificate.
	From identity.Identity
	// Incarnation is the incarnation of the sending process.
	Incarnation uint64
	// Message is the message itself.
	Message proto.Message
	// Deadline is when the sender stops waiting for the reply; zero if the message
	// is not a request.
	Deadline time.Time

	// inbox counts the message, of `size` bytes, while the message waits in the mailbox.
	inbox *Inbox
	size  int
}

// Start returns a Remote for system. It must be called before the system's actors
// send to a peer.
func Start(system *actor.ActorSystem, config Config) (*Remote, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("start remote: %w", err)
	}
	if config.Logger == nil {
		config.Logger = system.Logger()
	}
	self := PeerName(config.Self)
	r := &Remote{
		system:  system,
		config:  config,
		limits:  config.Limits,
		self:    self,
		log:     config.Logger,
		news:    news{tell: config.OnPeer},
		streams: make(map[string]*session),
		wanted:  make(map[string]context.CancelFunc),
	}
	r.published.Store(&map[string]publication{})
	everywhere := &process{remote: r}
	system.ProcessRegistry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return everywhere, true })
	return r, nil
}

// Self returns the name by which peers reach this process.
func (r *Remote) Self() string { return r.self }

// Publish makes the actor pid reachable by name for peers of the given roles.
// It replaces an actor published by that name. inbox bounds the messages that wait
// for the actor, which must have been spawned with its Mailbox.
func (r *Remote) Publish(name string, pid *actor.PID, inbox *Inbox, roles ...identity.Role) error {
	switch {
	case name == "" || len(name) > maxName || strings.HasPrefix(name, reserved):
		return fmt.Errorf("publish actor %q: the name must have 1 to %d bytes and not begin with %q", name, maxName, reserved)
	case pid == nil:
		return fmt.Errorf("publish actor %q: no actor given", name)
	case inbox == nil || !inbox.spawned():
		return fmt.Errorf("publish actor %q: needs a bounded mailbox: spawn it with the Mailbox of an Inbox", name)
	case len(roles) == 0:
		return fmt.Errorf("publish actor %q: no roles given", name)
	}
	r.republish(func(all map[string]publication) {
		all[name] = publication{pid: pid, inbox: inbox, roles: slices.Clone(roles)}
	})
	return nil
}

// Unpublish makes the actor unreachable.
func (r *Remote) Unpublish(name string) {
	r.republish(func(all map[string]publication) { delete(all, name) })
}

func (r *Remote) republish(change func(map[string]publication)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(*r.published.Load())
	change(all)
	r.published.Store(&all)
}

// Connected reports whether there is a stream with peer.
func (r *Remote) Connected(peer string) bool { return r.stream(peer) != nil }

// Disconnect undoes Connect, and ends the stream with peer, whichever side opened
// it. The peer may connect again; Config.Admit can refuse that.
func (r *Remote) Disconnect(peer string) {
	r.mu.Lock()
	giveUp := r.wanted[peer]
	delete(r.wanted, peer)
	r.mu.Unlock()
	if giveUp != nil {
		giveUp()
	}
	if s := r.stream(peer); s != nil {
		s.end(errors.New("disconnected by this process"), r.self+" has disconnected")
	}
}

// Close ends all streams, fails open requests, and reports the ends to OnPeer
// before it returns. A stream to which the http.Server cannot write may last until
// the server closes the connection.
func (r *Remote) Close() {
	r.mu.Lock()
	r.closed = true
	for peer, giveUp := range r.wanted {
		giveUp()
		delete(r.wanted, peer)
	}
	r.mu.Unlock()
	for _, s := range r.allSessions() {
		s.end(ErrClosed, r.self+" is closing")
	}
	done := make(chan struct{})
	go func() {
		r.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * r.limits.FarewellTimeout):
		r.log.Warn("streams still open after close", "self", r.self)
	}
	r.news.wait()
}

// stream returns the session of peer; nil if there is none.
func (r *Remote) stream(peer string) *session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.streams[peer]
}

func (r *Remote) allSessions() []*session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.streams))
}

// begin adds a task that Close waits for. It returns false after Close.
func (r *Remote) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.tasks.Add(1)
	return true
}

// enter makes a session from a stream whose hello passed checkHello, unless the peer's current
// stream takes precedence or Admit refuses the new one.
func (r *Remote) enter(peer counterpart, ours bool, tr transport) (*session, error) {
	r.mu.Lock()
	c := claim{peer: peer.name, incarnation: peer.incarnation, ours: ours}
	candidate := Candidate{Peer: peer.name, Identity: peer.id, Incarnation: peer.incarnation, Version: peer.version}
	old := r.streams[peer.name]
	if old != nil && old.peer.incarnation != peer.incarnation {
		candidate.Rival = old.peer.incarnation
	}
	var refused error
	switch {
	case r.closed:
		refused = refusef("%s is closing", r.self)
	case old != nil && !c.replaces(old.claim, r.self):
		refused = refusef("%s and %s are already connected", r.self, peer.name)
	default:
		if err := r.config.Admit(candidate); err != nil {
			refused = refusef("%v", err)
		}
	}
	if refused != nil {
		r.mu.Unlock()
		return nil, refused
	}
	r.last++
	s := newSession(r, r.last, c, peer, tr)
	r.streams[peer.name] = s
	reason := fmt.Sprintf("replaced by incarnation %x of %s", peer.incarnation, peer.name)
	if old != nil {
		r.news.add(old.change(false, reason))
	}
	r.news.add(s.change(true, ""))
	r.mu.Unlock()
	if old != nil {
		old.end(errors.New(reason), reason)
	}
	r.counters.connects.Add(1)
	r.log.Info("peer connected", "peer", peer.name, "incarnation", hex(peer.incarnation), "version", peer.version, "dialed", ours)
	s.keepAlive()
	return s, nil
}

// leave removes an ended session and reports its end, unless another session has replaced it.
func (r *Remote) leave(s *session, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[s.peer.name] == s {
		delete(r.streams, s.peer.name)
		change := s.change(false, cause.Error())
		change.Bye = errors.Is(cause, errBye)
		r.news.add(change)
	}
}

// hello returns the first frame to peer.
func (r *Remote) hello(peer string) *remotepb.Batch {
	return &remotepb.Batch{Frames: []*remotepb.Frame{{Kind: &remotepb.Frame_Hello{Hello: &remotepb.Hello{
		Protocol:        protocol,
		Cluster:         r.config.Self.Cluster,
		Peer:            r.self,
		To:              peer,
		Incarnation:     r.config.Incarnation,
		Version:         r.config.Version,
		MaxMessageBytes: uint64(r.limits.MaxMessageBytes),
	}}}}}
}

// hex formats an incarnation for logs.
func hex(n uint64) string { return fmt.Sprintf("%x", n) }
