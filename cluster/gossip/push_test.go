package gossip

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"weir/cluster/wire"
	"weir/scheduling"
)

// TestPusher sends a flood in order, at its pace, and the next message at once after a rest.
func TestPusher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []time.Duration
		var last string
		began := time.Now()
		p := newPusher(func(encoded []byte) {
			if last >= string(encoded) {
				t.Errorf("%s after %s", encoded, last)
			}
			last = string(encoded)
			sent = append(sent, time.Since(began))
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			p.run(ctx)
			close(ended)
		}()
		for i := range 2*maxPushes + 1 {
			p.push(fmt.Appendf(nil, "%05d", i))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if len(sent) != 2*maxPushes+1 {
			t.Fatalf("%d sent", len(sent))
		}
		for i, at := range sent {
			if want := time.Duration(i/maxPushes) * pushInterval; at != want {
				t.Errorf("message %d after %v, want %v", i, at, want)
			}
		}
		p.push([]byte("later"))
		synctest.Wait()
		if at := sent[len(sent)-1]; at != time.Minute {
			t.Errorf("after a rest sent after %v", at)
		}
		cancel()
		<-ended
		// Nobody takes what is pushed: it does not block.
		for range 2 * maxQueued {
			p.push([]byte("never"))
		}
	})
}

// TestPushesReachAll of a few members without a round of gossip.
func TestPushesReachAll(t *testing.T) {
	const n = 4
	heard := make(chan string, n)
	var muxes []*wire.Mux
	var peers []string
	for range n {
		mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = mux.Close() })
		muxes, peers = append(muxes, mux), append(peers, mux.Addr().String())
	}
	var members []*Gossip
	for i, mux := range muxes {
		dialer, err := wire.NewDialer(wire.Insecure{})
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("r", i)
		g, err := Start(Config{
			Self: Member{ID: scheduling.ReplicaID(id), Address: peers[i]}, Cluster: "c1", Insecure: true, Port: mux, Dialer: dialer, Peers: peers,
			Handlers: map[string]Handler{"t": {Receive: func(payload []byte) { heard <- id + " " + string(payload) }}},
			// Without rounds, and without probes, which take messages along.
			tune: func(settings *memberlist.Config) { settings.GossipInterval, settings.ProbeInterval = 0, time.Hour },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close() })
		members = append(members, g)
	}
	limit := time.After(time.Minute)
	for len(members[0].Members()) < n {
		select {
		case <-limit:
			t.Fatalf("r0 has met %v", members[0].Members())
		case <-time.After(time.Millisecond):
		}
	}
	// A packet may be lost where all sockets are full; here nothing else sends.
	if err := members[0].Broadcast("t", "key", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for len(told) < n-1 {
		select {
		case who := <-heard:
			told[who] = true
		case <-limit:
			t.Fatalf("heard by %v alone", told)
		}
	}
}
