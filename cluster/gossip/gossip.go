package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"weir/scheduling"
)

// Port is the part of a replica's port that gossip uses. A Gossip closes the listener and the
// socket when it is closed.
type Port interface {
	// Gossip returns the listener of gossip streams.
	Gossip() net.Listener
	// Packets returns the UDP socket under the same port number.
	Packets() net.PacketConn
}

// Dialer opens gossip streams to other replicas.
type Dialer interface {
	// DialGossip returns a stream to the replica at addr, host:port.
	DialGossip(ctx context.Context, addr string) (net.Conn, error)
}

// Config configures a Gossip.
type Config struct {
	// Self is this replica. ID and Address are required; they and Incarnation never
	// change. Update changes the other fields.
	Self Member
	// Cluster is the cluster's id, at most 63 bytes: packets of other
	// clusters are dropped.
	Cluster string
	// Keys have 32 bytes each. The first encrypts all packets and streams; what others send may be
	// encrypted with any of them. UseKeys changes them.
	Keys [][]byte
	// Insecure allows no Keys: gossip in plaintext.
	Insecure bool
	// Port and Dialer carry packets and streams.
	Port   Port
	Dialer Dialer
	// Accepts returns an error for a replica that is not a member of the cluster. If nil, every
	// process with the key is one. It is called with locks held and must not block or call the Gossip.
	Accepts func(replica string) error
	// Peers are host:port of the replicas to join. They may include this replica, and need not be
	// up.
	Peers []string
	// Profile chooses the timings; the zero value is Local.
	Profile Profile
	// Handlers are handlers by topic. They get even the very first messages.
	Handlers map[string]Handler
	// Logger logs members that join and leave, and warnings. If nil, nothing is logged.
	Logger *slog.Logger

	// tune changes memberlist's settings; meetPatience and rivalPatience replace the constants with
	// these names. All three are for tests of this package.
	tune                        func(*memberlist.Config)
	meetPatience, rivalPatience time.Duration
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Self.ID == "":
		return errors.New("self: has no id")
	case c.Cluster == "" || len(c.Cluster) > 63:
		return fmt.Errorf("cluster id %q: must be 1 to 63 bytes", c.Cluster)
	case len(c.Keys) == 0 && !c.Insecure:
		return errors.New("key: missing: use gossip.key of the replica's credentials, or allow insecure gossip")
	case c.Port == nil || c.Dialer == nil:
		return errors.New("port and dialer are both required")
	case c.Profile > Fast:
		return fmt.Errorf("%v: must be local or fast", c.Profile)
	}
	for _, peer := range c.Peers {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			return fmt.Errorf("peer %q: %w: want host:port", peer, err)
		}
	}
	_, err := encodeMember(c.Self)
	return cmp.Or(validateKeys(c.Keys), err)
}

// Gossip is this replica's membership in the cluster's gossip. It is safe for
// concurrent use.
type Gossip struct {
	config    Config
	self      scheduling.ReplicaID
	log       *slog.Logger
	roster    *roster
	messenger *messenger
	pusher    *pusher
	delegate  *delegate
	list      *memberlist.Memberlist
	// keyring is nil in plaintext.
	keyring *memberlist.Keyring

	cancel  context.CancelFunc // ends the goroutines of running
	running sync.WaitGroup

	stopJoining context.CancelFunc
	joining     sync.WaitGroup

	mu     sync.Mutex // serializes Update and Leave
	member Member     // as announced last
	left   bool
	closed bool

	// met is closed when every peer has been tried once.
	met chan struct{}
	// noticed holds one element if the map of rivals, by address, may have new entries.
	noticed chan struct{}
	rivalMu sync.Mutex
	rivals  map[netip.AddrPort]Member

	closeOnce sync.Once
	closeErr  error
}

// resolveTimeout bounds how long the replica's own address may take to resolve.
const resolveTimeout = 10 * time.Second

// Start starts gossip and keeps joining config.Peers until Leave or Close. It does not wait for any
// peer.
func Start(config Config) (*Gossip, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Accepts == nil {
		config.Accepts = func(string) error { return nil }
	}
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	config.Peers = slices.Clone(config.Peers)
	config.meetPatience = cmp.Or(config.meetPatience, meetPatience)
	config.rivalPatience = cmp.Or(config.rivalPatience, rivalPatience)
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	advertise, err := resolve(ctx, config.Self.Address)
	cancel()
	if err == nil && advertise.Addr().IsUnspecified() {
		err = fmt.Errorf("address %s: unreachable for others: set one that is reachable", config.Self.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("start gossip: self: %w", err)
	}

	g := &Gossip{
		config: config,
		self:   config.Self.ID,
		log:    config.Logger,
		member: config.Self,
		met:    make(chan struct{}), noticed: make(chan struct{}, 1), rivals: make(map[netip.AddrPort]Member),
	}
	g.roster = newRoster(g.accepts)
	if len(config.Keys) > 0 {
		if g.keyring, err = memberlist.NewKeyring(config.Keys, config.Keys[0]); err != nil {
			return nil, fmt.Errorf("start gossip: key: %w", err)
		}
	}
	g.delegate = &delegate{gossip: g}
	meta, _ := encodeMember(config.Self) // No error: Validate has encoded it too.
	g.delegate.meta.Store(&meta)
	settings := g.settings()
	g.messenger = newMessenger(g.self, config.Handlers, g.roster.size, g.accepts, settings.RetransmitMult, g.log)
	settings.Transport = newTransport(config.Port, config.Dialer, advertise, g.roster.bars, g.log)
	if g.list, err = memberlist.Create(settings); err != nil {
		return nil, fmt.Errorf("start gossip: %w", errors.Join(err, settings.Transport.Shutdown()))
	}
	g.pusher = newPusher(func(encoded []byte) { sendToAll(g.list, encoded) })
	ctx, g.cancel = context.WithCancel(context.Background())
	g.running.Go(func() { g.pusher.run(ctx) })
	g.running.Go(func() { g.roster.run(ctx) })
	g.running.Go(func() { g.messenger.deliver(ctx) })
	joining, stop := context.WithCancel(ctx)
	g.stopJoining = stop
	g.joining.Go(func() { g.joinPeers(joining) })
	return g, nil
}

// settings returns memberlist's configuration without a transport.
func (g *Gossip) settings() *memberlist.Config {
	settings := memberlist.DefaultLANConfig()
	g.config.Profile.apply(settings)
	settings.Name = string(g.self)
	settings.Label = g.config.Cluster
	settings.Keyring = g.keyring
	settings.GossipVerifyIncoming = true
	settings.GossipVerifyOutgoing = true
	// Compressing a packet would take thirty times as long as sending it plain.
	settings.EnableCompression = false
	// A replica that returns under another address, as in a container, can take
	// its name back a second after it was declared dead.
	settings.DeadNodeReclaimTime = time.Second
	settings.Delegate = g.delegate
	settings.Events = g.delegate
	settings.Alive = g.delegate
	settings.Conflict = g.delegate
	settings.Logger = newLog(g.log)
	if g.config.tune != nil {
		g.config.tune(settings)
	}
	return settings
}

// accepts reports whether a replica is this one or a member.
func (g *Gossip) accepts(id scheduling.ReplicaID) bool {
	return id == g.self || g.config.Accepts(string(id)) == nil
}

// Review drops live members that Config.Accepts no longer accepts: nothing is sent to their address, and
// what comes from there is dropped, until they are accepted again. Call it when members may have changed.
func (g *Gossip) Review() {
	for _, id := range g.roster.review() {
		g.log.Info("replica gone", "replica", id, "reason", "not a member")
	}
}

// Members returns the live members, this replica included, sorted by id.
func (g *Gossip) Members() []Member { return slices.Clone(*g.roster.members.Load()) }

// Subscribe calls f with the live members soon, and then after every change;
// changes in quick succession make one call. Calls are made one at a time.
// After cancel f may be called once more.
func (g *Gossip) Subscribe(f func([]Member)) (cancel func()) { return g.roster.subscribe(f) }

// Update changes what this replica says about itself. Its id, address and
// incarnation cannot change. The others receive it within a few gossip intervals.
func (g *Gossip) Update(change func(*Member)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	member := g.member
	change(&member)
	if g.closed {
		return fmt.Errorf("announce: %w", net.ErrClosed)
	}
	if member.ID != g.self || member.Address != g.member.Address || member.Incarnation != g.member.Incarnation {
		return fmt.Errorf("announce: id, address and incarnation cannot change: %s at %s cannot become %s at %s", g.self, g.member.Address, member.ID, member.Address)
	}
	if member == g.member {
		return nil
	}
	meta, err := encodeMember(member)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	g.delegate.meta.Store(&meta)
	g.member = member
	// The update is queued at once. Only the wait until it has been sent can time
	// out, and that wait is not needed.
	_ = g.list.UpdateNode(time.Nanosecond)
	return nil
}

// Handle sets the handler for messages and states of topic, in place of any
// earlier one.
func (g *Gossip) Handle(topic string, handler Handler) { g.messenger.handle(topic, handler) }

// Broadcast sends payload to all other members, unless a later message of the
// same topic and key replaces it. Topic, key and payload may have MaxMessageSize
// bytes together.
func (g *Gossip) Broadcast(topic, key string, payload []byte) error {
	encoded, err := g.messenger.broadcast(topic, key, payload)
	if err == nil {
		g.pusher.push(encoded)
	}
	return err
}

// Leave announces to the others that this replica leaves on purpose, and waits
// up to timeout until that has been sent. Call Close afterwards.
func (g *Gossip) Leave(timeout time.Duration) error {
	g.stopJoining()
	g.joining.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.left {
		return nil
	}
	g.left = true
	if err := g.list.Leave(timeout); err != nil {
		return fmt.Errorf("leave gossip: %w", err)
	}
	return nil
}

// Close ends gossip without announcing it, and closes the port's gossip listener and socket. To the
// other members this looks like a crash unless Leave was called before. When Close returns,
// handlers and subscribers have returned, except for the LocalState of an exchange under way.
// Handlers and subscribers must not call Close.
func (g *Gossip) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.closeOnce.Do(func() {
		g.cancel()
		g.stopJoining()
		if err := g.list.Shutdown(); err != nil {
			g.closeErr = fmt.Errorf("close gossip: %w", err)
		}
		g.joining.Wait()
		g.running.Wait()
	})
	return g.closeErr
}
