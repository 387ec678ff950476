package gossip_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cluster/gossip"
	"weir/cluster/wire"
	"weir/scheduling"
)

// five are members who know each other, at the timings of a cluster. heard gets an element
// for each message that one of them hears.
func five(b *testing.B) (members []*gossip.Gossip, heard chan struct{}) {
	b.Helper()
	const n = 5
	heard = make(chan struct{}, n*flood)
	first := ""
	for i := range n {
		mux, err := wire.Listen(wire.Config{Address: "127.0.0.1:0", Security: wire.Insecure{}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = mux.Close() })
		dialer, err := wire.NewDialer(wire.Insecure{})
		if err != nil {
			b.Fatal(err)
		}
		if first == "" {
			first = mux.Addr().String()
		}
		g, err := gossip.Start(gossip.Config{
			Self: gossip.Member{ID: scheduling.ReplicaID(fmt.Sprint("r", i)), Address: mux.Addr().String()}, Cluster: "c1", Keys: [][]byte{[]byte(strings.Repeat("k", 32))},
			Port: mux, Dialer: dialer, Peers: []string{first},
			Handlers: map[string]gossip.Handler{"t": {Receive: func([]byte) { heard <- struct{}{} }}},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = g.Close() })
		members = append(members, g)
	}
	for i, g := range members {
		for limit := time.Now().Add(deadline); len(g.Members()) < n; <-time.After(5 * time.Millisecond) {
			if time.Now().After(limit) {
				b.Fatalf("r%d has met %d of %d", i, len(g.Members()), n)
			}
		}
	}
	return members, heard
}

// flood is how many jobs a wave of preemption interrupts.
const flood = 500

// BenchmarkBroadcast is how long it takes until all others of five have heard a message, and
// each of a flood of them.
func BenchmarkBroadcast(b *testing.B) {
	for name, count := range map[string]int{"one": 1, "flood": flood} {
		b.Run(name, func(b *testing.B) {
			members, heard := five(b)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				for i := range count {
					if err := members[0].Broadcast("t", fmt.Sprint(len(took), " ", i), make([]byte, 150)); err != nil {
						b.Fatal(err)
					}
				}
				for range count * (len(members) - 1) {
					select {
					case <-heard:
					case <-time.After(deadline):
						b.Fatal("not all have heard")
					}
				}
				took = append(took, time.Since(began))
				// At any time of a round.
				<-time.After(time.Duration(len(took)%7) * 10 * time.Millisecond)
			}
			slices.Sort(took)
			for _, percent := range []int{50, 99} {
				b.ReportMetric(float64(took[(len(took)-1)*percent/100])/float64(time.Millisecond), fmt.Sprint("p", percent, "-ms"))
			}
		})
	}
}
