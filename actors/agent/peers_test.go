package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/remote"
	"weir/messages/actorpb"
)

// cables connects with peers as the test says.
type cables struct {
	up     map[string]bool
	wanted []string
	sent   []string
	refuse error
	// comesUp: the stream is there when Connect returns.
	comesUp bool
}

func (c *cables) Connect(peer string) error {
	c.wanted = append(c.wanted, peer)
	c.up[peer] = c.comesUp
	return c.refuse
}

func (c *cables) Disconnect(peer string) {
	c.wanted = slices.DeleteFunc(c.wanted, func(p string) bool { return p == peer })
	delete(c.up, peer)
}

func (c *cables) Connected(peer string) bool { return c.up[peer] }

func (c *cables) RequestAsync(peer, name string, _ proto.Message, timeout time.Duration, done func(proto.Message, error)) {
	c.sent = append(c.sent, fmt.Sprint(peer, " ", name, " ", timeout))
	done(&actorpb.HeartbeatAck{}, nil)
}

func TestPeers(t *testing.T) {
	tests := map[string]struct {
		cables *cables
		// upAfter is when the stream comes up; 0: never.
		upAfter  time.Duration
		wantSent string
		wantErr  error
		wantAt   time.Duration
	}{
		"a stream is there":                {cables: &cables{up: map[string]bool{"replica/r1": true}}, wantSent: "replica/r1 gateway 2s"},
		"a stream comes up":                {cables: &cables{up: map[string]bool{}}, upAfter: 300 * time.Millisecond, wantSent: "replica/r1 gateway 1.7s", wantAt: 300 * time.Millisecond},
		"a stream comes up at once":        {cables: &cables{up: map[string]bool{}, comesUp: true}, wantSent: "replica/r1 gateway 2s"},
		"no stream comes up":               {cables: &cables{up: map[string]bool{}}, wantErr: remote.ErrNotConnected, wantAt: 500 * time.Millisecond},
		"a stream comes up too late":       {cables: &cables{up: map[string]bool{}}, upAfter: time.Second, wantErr: remote.ErrNotConnected, wantAt: 500 * time.Millisecond},
		"a connection that cannot be made": {cables: &cables{up: map[string]bool{}, refuse: remote.ErrClosed}, wantErr: remote.ErrClosed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peers := NewPeers(time.Hour)
				peers.SetPatience(500 * time.Millisecond)
				peers.Use(test.cables)
				var answers int
				var failure error
				begin := time.Now()
				var at time.Duration
				peers.Ask(Replica{ID: "r1", Address: "h:1"}, &actorpb.Heartbeat{}, 2*time.Second, func(_ proto.Message, err error) {
					answers, failure, at = answers+1, err, time.Since(begin)
				})
				if address, ok := peers.Address("replica/r1"); !ok || address != "h:1" {
					t.Errorf("address %q", address)
				}
				if test.upAfter > 0 {
					<-time.After(test.upAfter)
					synctest.Wait()
					peers.OnPeer(remote.PeerChange{Peer: "replica/r2", Up: true})
					peers.OnPeer(remote.PeerChange{Peer: "replica/r1"})
					peers.OnPeer(remote.PeerChange{Peer: "replica/r1", Up: true})
				}
				<-time.After(time.Minute)
				synctest.Wait()
				if answers != 1 || !errors.Is(failure, test.wantErr) || at != test.wantAt {
					t.Errorf("%d answers, %v after %v; want one, %v after %v", answers, failure, at, test.wantErr, test.wantAt)
				}
				got := ""
				if len(test.cables.sent) > 0 {
					got = test.cables.sent[0]
				}
				if got != test.wantSent || len(test.cables.sent) > 1 {
					t.Errorf("sent %q, want %q", test.cables.sent, test.wantSent)
				}
			})
		})
	}
	if _, ok := NewPeers(time.Second).Address("replica/r9"); ok {
		t.Error("a peer that nobody named has an address")
	}
}

// TestPeersGiveUpTheRemoved asks replicas, has some of them removed, and asks one of those
// again: nothing is kept open to any but the members and who was asked since.
func TestPeersGiveUpTheRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cables{up: map[string]bool{}, comesUp: true}
		peers := NewPeers(500 * time.Millisecond)
		peers.Use(c)
		answers := 0
		ask := func(id string) {
			peers.Ask(Replica{ID: id, Address: id + ":1"}, &actorpb.Heartbeat{}, time.Second, func(proto.Message, error) { answers++ })
			synctest.Wait()
		}
		keep := func(want string, members ...string) {
			t.Helper()
			var all []*actorpb.Replica
			for _, id := range members {
				all = append(all, &actorpb.Replica{Id: id})
			}
			peers.Keep(all)
			if got := strings.Join(c.wanted, " "); got != want {
				t.Errorf("streams to %q are wanted, want %q", got, want)
			}
		}
		ask("r1")
		ask("r2")
		ask("r3")
		keep("replica/r1 replica/r2 replica/r3", "r1", "r2", "r3")
		keep("replica/r1 replica/r3", "r1", "r3", "r4")
		if _, known := peers.Address("replica/r2"); known {
			t.Error("the address of a replica that was removed is kept")
		}
		ask("r2")
		keep("replica/r1 replica/r3 replica/r2", "r1", "r2", "r3")
		keep("replica/r1", "r1")
		c.comesUp = false
		ask("r3")
		keep("replica/r1", "r1")
		<-time.After(time.Minute)
		synctest.Wait()
		if answers != 5 {
			t.Errorf("%d answers, want one to each of 5 questions", answers)
		}
	})
}

func TestMeasureResources(t *testing.T) {
	got, err := MeasureResources()
	if err != nil {
		t.Fatal(err)
	}
	if got.UserSlots < 4 || got.CPU <= 0 || got.Memory <= 0 || got.Validate() != nil {
		t.Errorf("got %v, want something of everything", got)
	}
}
