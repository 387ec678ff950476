package gossip_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cluster/gossip"
	"weir/cluster/identity"
	"weir/cluster/identity/identitytest"
	"weir/cluster/leaktest"
	"weir/cluster/wire"
	"weir/scheduling"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// deadline is how long a test waits for what must happen.
const deadline = time.Minute

// replica is a port with gossip on it.
type replica struct {
	*gossip.Gossip
	mux *wire.Mux
}

// open opens a port for the replica called id, before anybody gossips.
func open(t *testing.T, security wire.Security, address string) *wire.Mux {
	t.Helper()
	mux, err := wire.Listen(wire.Config{Address: address, Security: security, HelloTimeout: deadline, HandshakeTimeout: deadline})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mux.Close() })
	return mux
}

func start(t *testing.T, mux *wire.Mux, security wire.Security, id string, change func(*gossip.Config)) *replica {
	t.Helper()
	dialer, err := wire.NewDialer(security)
	if err != nil {
		t.Fatal(err)
	}
	config := gossip.Config{
		Self:     gossip.Member{ID: scheduling.ReplicaID(id), Address: mux.Addr().String(), Version: "v1"},
		Cluster:  "c1",
		Keys:     [][]byte{bytes.Repeat([]byte{7}, 32)},
		Port:     mux,
		Dialer:   dialer,
		Profile:  gossip.Fast,
		Handlers: map[string]gossip.Handler{},
	}
	if change != nil {
		change(&config)
	}
	g, err := gossip.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{Gossip: g, mux: mux}
	t.Cleanup(r.stop)
	return r
}

// stop ends the replica as a crash would.
func (r *replica) stop() {
	_ = r.Close()
	_ = r.mux.Close()
}

func (r *replica) ids() string {
	var ids []string
	for _, member := range r.Members() {
		ids = append(ids, string(member.ID))
	}
	return strings.Join(ids, " ")
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

func waitMembers(t *testing.T, want string, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		waitFor(t, fmt.Sprintf("%s sees %q, want %q", r.mux.Addr(), r.ids(), want), func() bool { return r.ids() == want })
	}
}

func joining(peers ...*wire.Mux) func(*gossip.Config) {
	return func(config *gossip.Config) {
		for _, peer := range peers {
			config.Peers = append(config.Peers, peer.Addr().String())
		}
	}
}

func TestReplicasFindEachOther(t *testing.T) {
	cluster := identitytest.New(t, "c1")
	var (
		ids        = []string{"r1", "r2", "r3"}
		securities []wire.Security
		muxes      []*wire.Mux
		replicas   []*replica
	)
	for _, id := range ids {
		security := wire.Mutual{Credentials: cluster.Credentials(t, identity.Replica, id)}
		securities = append(securities, security)
		muxes = append(muxes, open(t, security, "127.0.0.1:0"))
	}
	for i, id := range ids { // The first has nobody to join yet.
		replicas = append(replicas, start(t, muxes[i], securities[i], id, joining(muxes...)))
	}
	waitMembers(t, "r1 r2 r3", replicas...)

	var mu sync.Mutex
	var told []gossip.Member
	cancel := replicas[0].Subscribe(func(members []gossip.Member) {
		mu.Lock()
		defer mu.Unlock()
		told = members
	})
	defer cancel()
	var leads gossip.Member
	err := replicas[2].Update(func(m *gossip.Member) {
		m.Leader, m.Term, m.Ready = true, 5, true
		leads = *m
	})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "r1 hears that r3 leads", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(told, leads)
	})

	replicas[1].stop() // Without a word.
	waitMembers(t, "r1 r3", replicas[0], replicas[2])
	again := start(t, open(t, securities[1], "127.0.0.1:0"), securities[1], "r2", joining(muxes...))
	waitMembers(t, "r1 r2 r3", replicas[0], again, replicas[2])

	if err := again.Leave(deadline); err != nil {
		t.Fatal(err)
	}
	waitMembers(t, "r1 r3", replicas[0], replicas[2])
}

func TestFactsThatCannotChange(t *testing.T) {
	r := start(t, open(t, wire.Insecure{}, "127.0.0.1:0"), wire.Insecure{}, "r1", nil)
	for name, change := range map[string]func(*gossip.Member){
		"id":        func(m *gossip.Member) { m.ID = "r2" },
		"address":   func(m *gossip.Member) { m.Address = "127.0.0.1:1" },
		"life":      func(m *gossip.Member) { m.Incarnation++ },
		"too large": func(m *gossip.Member) { m.Version = strings.Repeat("v", 600) },
	} {
		if err := r.Update(change); err == nil {
			t.Errorf("%s: announced", name)
		}
	}
	if err := r.Update(func(m *gossip.Member) { m.Term = 3 }); err != nil || r.Members()[0].Term != 3 {
		t.Errorf("members %+v after an update, %v", r.Members(), err)
	}
}

// inbox remembers what a handler was called with.
type inbox struct {
	mu       sync.Mutex
	received []string
	merged   []string
	state    string
}

func (b *inbox) handler() gossip.Handler {
	return gossip.Handler{
		Receive: func(payload []byte) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.received = append(b.received, string(payload))
		},
		LocalState: func() []byte {
			b.mu.Lock()
			defer b.mu.Unlock()
			return []byte(b.state)
		},
		Merge: func(state []byte) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.merged = append(b.merged, string(state))
		},
	}
}

func (b *inbox) has(received, merged string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return (received == "" || slices.Contains(b.received, received)) && (merged == "" || slices.Contains(b.merged, merged))
}

func TestMessagesReachEverybody(t *testing.T) {
	const n = 5
	// The longest cluster id leaves the least room for the largest message.
	longest := strings.Repeat("c", 63)
	var replicas []*replica
	var boxes [n]inbox
	var first *wire.Mux
	ids := ""
	for i := range n {
		mux := open(t, wire.Insecure{}, "127.0.0.1:0")
		if first == nil {
			first = mux
		}
		replicas = append(replicas, start(t, mux, wire.Insecure{}, fmt.Sprint("r", i), func(config *gossip.Config) {
			// Who is taken for dead for a moment is told nothing then.
			config.Profile = gossip.Local
			config.Cluster = longest
			config.Peers = []string{first.Addr().String()}
			config.Handlers["t"] = boxes[i].handler()
		}))
		ids += fmt.Sprint("r", i, " ")
	}
	waitMembers(t, strings.TrimSpace(ids), replicas...)
	largest := strings.Repeat("x", gossip.MaxMessageSize-len("t")-len("big"))
	for key, payload := range map[string]string{"big": largest, "small": "hello"} {
		if err := replicas[3].Broadcast("t", key, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range boxes {
		if i != 3 {
			waitFor(t, fmt.Sprint("both messages reach r", i), func() bool {
				return boxes[i].has(largest, "") && boxes[i].has("hello", "")
			})
		}
	}
	if boxes[3].has("hello", "") {
		t.Error("a message was delivered to its sender")
	}

	// What was said before it came reaches a late one as state.
	boxes[0].mu.Lock()
	boxes[0].state = "live signals"
	boxes[0].mu.Unlock()
	var late inbox
	start(t, open(t, wire.Insecure{}, "127.0.0.1:0"), wire.Insecure{}, "late", func(config *gossip.Config) {
		config.Cluster = longest
		config.Peers = []string{first.Addr().String()}
		config.Handlers["t"] = late.handler()
	})
	waitFor(t, "the late one learns what is live", func() bool { return late.has("", "live signals") })
}

func TestStrangersStayOut(t *testing.T) {
	for name, change := range map[string]func(*gossip.Config){
		"another key":     func(config *gossip.Config) { config.Keys = [][]byte{bytes.Repeat([]byte{8}, 32)} },
		"no key":          func(config *gossip.Config) { config.Keys, config.Insecure = nil, true },
		"another cluster": func(config *gossip.Config) { config.Cluster = "c2" },
	} {
		t.Run(name, func(t *testing.T) {
			here := start(t, open(t, wire.Insecure{}, "127.0.0.1:0"), wire.Insecure{}, "r1", nil)
			refused := make(chan struct{}, 1)
			stranger := start(t, open(t, wire.Insecure{}, "127.0.0.1:0"), wire.Insecure{}, "r2", func(config *gossip.Config) {
				joining(here.mux)(config)
				change(config)
				config.Logger = slog.New(whenLogged{slog.DiscardHandler, "peer not reached yet", refused})
			})
			select {
			case <-refused:
			case <-time.After(deadline):
				t.Fatal("the stranger was not told")
			}
			if here.ids() != "r1" || stranger.ids() != "r2" {
				t.Errorf("they see %q and %q", here.ids(), stranger.ids())
			}
		})
	}
}

// TestRemovedReplicaHearsNothing (T6) has a replica that is live, and has the key and its certificate, cease
// to be a member: it is in no list, hears no message, is not heard, and does not come back as another
// process. It is again once it is a member again.
func TestRemovedReplicaHearsNothing(t *testing.T) {
	var removed atomic.Bool
	accepts := func(replica string) error {
		if replica == "r3" && removed.Load() {
			return errors.New("removed")
		}
		return nil
	}
	issuer := identitytest.New(t, "c1")
	var boxes [3]inbox
	var muxes []*wire.Mux
	var replicas []*replica
	var last wire.Security
	for i := range boxes {
		id := fmt.Sprint("r", i+1)
		credentials := issuer.Credentials(t, identity.Replica, id)
		if id != "r3" {
			credentials.HeedMembers(accepts)
		}
		last = wire.Mutual{Credentials: credentials}
		muxes = append(muxes, open(t, last, "127.0.0.1:0"))
		replicas = append(replicas, start(t, muxes[i], last, id, func(config *gossip.Config) {
			joining(muxes...)(config)
			config.Handlers["t"] = boxes[i].handler()
			if id != "r3" {
				config.Accepts = accepts
			}
		}))
	}
	say := func(from int, text string) {
		t.Helper()
		if err := replicas[from].Broadcast("t", text, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	waitMembers(t, "r1 r2 r3", replicas...)
	say(0, "before")
	waitFor(t, "r3 hears r1", func() bool { return boxes[2].has("before", "") })

	removed.Store(true)
	replicas[0].Review()
	replicas[1].Review()
	waitMembers(t, "r1 r2", replicas[:2]...)
	say(2, "of the removed one")
	say(0, "secret")
	say(1, "secret too")
	waitFor(t, "members hear each other", func() bool { return boxes[1].has("secret", "") && boxes[0].has("secret too", "") })
	// It finds them dead, as no packet reaches it, and nothing it said has been heard until then.
	waitMembers(t, "r3", replicas[2])
	if boxes[2].has("secret", "") || boxes[2].has("secret too", "") {
		t.Error("the removed replica hears messages")
	}
	if boxes[0].has("of the removed one", "") || boxes[1].has("of the removed one", "") {
		t.Error("the removed replica is heard")
	}

	// As another process, at another address that nobody bars.
	replicas[2].stop()
	refused := make(chan struct{}, 1)
	var box inbox
	again := start(t, open(t, last, "127.0.0.1:0"), last, "r3", func(config *gossip.Config) {
		joining(muxes[:2]...)(config)
		config.Handlers["t"] = box.handler()
		config.Logger = slog.New(whenLogged{slog.DiscardHandler, "peer not reached yet", refused})
	})
	select {
	case <-refused:
	case <-time.After(deadline):
		t.Fatal("the removed replica was not refused")
	}
	if replicas[0].ids() != "r1 r2" || again.ids() != "r3" {
		t.Errorf("r1 sees %q, the removed one %q", replicas[0].ids(), again.ids())
	}
	removed.Store(false)
	replicas[0].Review()
	replicas[1].Review()
	waitMembers(t, "r1 r2 r3", replicas[0], replicas[1], again)
}

func TestCloseTwiceAndUseAfterwards(t *testing.T) {
	r := start(t, open(t, wire.Insecure{}, "127.0.0.1:0"), wire.Insecure{}, "r1", nil)
	called := make(chan struct{})
	var once sync.Once
	r.Subscribe(func([]gossip.Member) {
		_ = r.Update(func(*gossip.Member) {}) // Must not wait for Close.
		once.Do(func() { close(called) })
	})
	<-called
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Leave(time.Second); err != nil {
		t.Errorf("Leave after Close: %v", err)
	}
	if err := r.Update(func(m *gossip.Member) { m.Term++ }); err == nil {
		t.Error("announced after Close")
	}
}

func TestConfigIsChecked(t *testing.T) {
	mux := open(t, wire.Insecure{}, "127.0.0.1:0")
	dialer, err := wire.NewDialer(wire.Insecure{})
	if err != nil {
		t.Fatal(err)
	}
	good := gossip.Config{
		Self: gossip.Member{ID: "r1", Address: mux.Addr().String()}, Cluster: "c1", Insecure: true, Port: mux, Dialer: dialer,
	}
	for want, change := range map[string]func(*gossip.Config){
		"has no id":              func(c *gossip.Config) { c.Self.ID = "" },
		"1 to 63 bytes":          func(c *gossip.Config) { c.Cluster = "" },
		"allow insecure":         func(c *gossip.Config) { c.Insecure = false },
		"want 32":                func(c *gossip.Config) { c.Keys = [][]byte{[]byte("short")} },
		"are both required":      func(c *gossip.Config) { c.Port = nil },
		"local or fast":          func(c *gossip.Config) { c.Profile = 9 },
		"want host:port":         func(c *gossip.Config) { c.Peers = []string{"r2"} },
		"unreachable for others": func(c *gossip.Config) { c.Self.Address = "0.0.0.0:7000" },
		"from 1 to 65535":        func(c *gossip.Config) { c.Self.Address = "127.0.0.1:0" },
		"too large":              func(c *gossip.Config) { c.Self.Version = strings.Repeat("v", 600) },
	} {
		config := good
		change(&config)
		if g, err := gossip.Start(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v, %v", want, g, err)
		}
	}
}
