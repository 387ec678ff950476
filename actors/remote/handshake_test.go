package remote

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/cluster/identity"
	"weir/messages/remotepb"
)

func TestCheckHello(t *testing.T) {
	self := identity.Identity{Cluster: "test", Role: identity.Replica, Name: "r1"}
	n7 := identity.Identity{Cluster: "test", Role: identity.Agent, Name: "n7"}
	for name, tc := range map[string]struct {
		change      func(*remotepb.Hello)
		certified   *identity.Identity
		dialed      string
		wantRefusal string
	}{
		"all is well":                     {certified: &n7},
		"there is no certificate to see":  {},
		"a newer peer":                    {change: func(h *remotepb.Hello) { h.Protocol = protocol + 7 }},
		"the peer that was dialed":        {dialed: "agent/n7"},
		"an older protocol":               {change: func(h *remotepb.Hello) { h.Protocol = 0 }, wantRefusal: "protocol 0 of weir \"v9\" is too old"},
		"another cluster":                 {change: func(h *remotepb.Hello) { h.Cluster = "prod" }, wantRefusal: `cluster "prod"`},
		"another name than certified":     {change: func(h *remotepb.Hello) { h.Peer = "agent/n8" }, certified: &n7, wantRefusal: "certificate identifies"},
		"another role than certified":     {change: func(h *remotepb.Hello) { h.Peer = "replica/n7" }, certified: &n7, wantRefusal: "certificate identifies"},
		"another cluster than certified":  {certified: &identity.Identity{Cluster: "prod", Role: identity.Agent, Name: "n7"}, wantRefusal: "certificate identifies"},
		"another peer than dialed":        {dialed: "agent/n8", wantRefusal: "dialed agent/n8, but reached agent/n7: is the address right?"},
		"a hello that is for another":     {change: func(h *remotepb.Hello) { h.To = "replica/r2" }, wantRefusal: "hello is for replica/r2"},
		"a name without a role":           {change: func(h *remotepb.Hello) { h.Peer = "n7" }, wantRefusal: "must be role/name"},
		"an unknown role":                 {change: func(h *remotepb.Hello) { h.Peer = "king/n7" }, wantRefusal: "king"},
		"a name that breaks out":          {change: func(h *remotepb.Hello) { h.Peer = "agent/../x" }, wantRefusal: "agent name"},
		"this process itself":             {change: func(h *remotepb.Hello) { h.Peer = "replica/r1" }, wantRefusal: "connecting to itself"},
		"no incarnation":                  {change: func(h *remotepb.Hello) { h.Incarnation = 0 }, wantRefusal: "has no incarnation"},
		"no limit on the size of message": {change: func(h *remotepb.Hello) { h.MaxMessageBytes = 0 }, wantRefusal: "has no message limit"},
	} {
		t.Run(name, func(t *testing.T) {
			hello := &remotepb.Hello{Protocol: protocol, Cluster: "test", Peer: "agent/n7", To: "replica/r1", Incarnation: 7, Version: "v9", MaxMessageBytes: 1 << 20}
			if tc.change != nil {
				tc.change(hello)
			}
			got, err := checkHello(self, tc.certified, tc.dialed, hello)
			if tc.wantRefusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantRefusal) {
					t.Fatalf("error %v, want a refusal that says %q", err, tc.wantRefusal)
				}
				return
			}
			want := counterpart{id: n7, name: "agent/n7", incarnation: 7, version: "v9", maxMessageBytes: 1 << 20}
			if err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
	if _, err := checkHello(self, nil, "", nil); err == nil {
		t.Error("a first frame that is no hello was accepted")
	}
}

// FuzzDecode feeds a receiver what a broken or hostile peer might send.
func FuzzDecode(f *testing.F) {
	seed, err := proto.Marshal(&remotepb.Batch{Frames: []*remotepb.Frame{{Kind: &remotepb.Frame_Hello{Hello: &remotepb.Hello{Protocol: 1, Peer: "agent/n7"}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	self := identity.Identity{Cluster: "test", Role: identity.Replica, Name: "r1"}
	f.Fuzz(func(t *testing.T, data []byte) {
		batch := new(remotepb.Batch)
		if proto.Unmarshal(data, batch) != nil {
			return
		}
		if peer, err := checkHello(self, nil, "", firstHello(batch)); err == nil && peer.id.Validate() != nil {
			t.Errorf("accepted %+v", peer)
		}
		for _, frame := range batch.GetFrames() {
			message, err := decode(frame.GetSend().GetPayload(), 100)
			if err == nil && (message == nil || len(frame.GetSend().GetPayload().GetValue()) > 100) {
				t.Errorf("decoded %v from %v", message, frame)
			}
		}
	})
}

// TestAgentsHaveTimeToConnect: streams with agents may take four times as long to connect as those between replicas.
func TestAgentsHaveTimeToConnect(t *testing.T) {
	limits := DefaultLimits()
	for _, test := range []struct {
		self, peer identity.Role
		want       time.Duration
	}{
		{identity.Agent, identity.Replica, 20 * time.Second}, {identity.Replica, identity.Agent, 20 * time.Second}, {identity.Replica, identity.Replica, 5 * time.Second},
	} {
		if got := limits.connect(test.self, test.peer); got != test.want {
			t.Errorf("%s with %s: %v, want %v", test.self, test.peer, got, test.want)
		}
	}
}

// TestAgentsPing: an agent pings a silent replica first; a replica that hears nothing of an agent does so later. Between replicas
// both ping soon.
func TestAgentsPing(t *testing.T) {
	limits := DefaultLimits()
	for _, test := range []struct {
		self, peer    identity.Role
		period, limit time.Duration
	}{
		{identity.Agent, identity.Replica, 10 * time.Second, 30 * time.Second},
		{identity.Replica, identity.Agent, 15 * time.Second, 30 * time.Second},
		{identity.Replica, identity.Replica, time.Second, 3 * time.Second},
	} {
		if period, timeout := limits.keepAlive(test.self, test.peer); period != test.period || timeout != test.limit {
			t.Errorf("%s pings %s after %v, gives it up after %v; want %v, %v", test.self, test.peer, period, timeout, test.period, test.limit)
		}
	}
	limits.KeepAliveTimeout = limits.KeepAlivePeriod + time.Millisecond
	if period, timeout := limits.keepAlive(identity.Replica, identity.Agent); period > timeout {
		t.Errorf("pings after %v, gives up after %v", period, timeout)
	}
}
