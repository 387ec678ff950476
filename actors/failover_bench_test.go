package actors

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/raftstore/state/statetest"
	"weir/scheduling"
)

// fill brings a store to a crowd. Nobody else proposes to it.
func fill(b *testing.B, store *raftstore.Store, crowd statetest.Crowd) {
	b.Helper()
	for current, changed := store.Leadership(); !current.Leader; current, changed = store.Leadership() {
		<-changed
	}
	var batch []proto.Message
	flush := func() {
		commands, err := encode(batch)
		if err != nil {
			b.Fatal(err)
		}
		results, err := store.Propose(b.Context(), commands...)
		if err != nil {
			b.Fatal(err)
		}
		for _, result := range results {
			if r := result.GetRefusal(); r != nil {
				b.Fatal(r)
			}
			for _, g := range result.GetStartAllocations().GetGrants() {
				if g.GetRefusal() != "" {
					b.Fatal(g)
				}
			}
		}
		batch = batch[:0]
	}
	for msg := range crowd.Commands() {
		if batch = append(batch, msg); len(batch) == 5 {
			flush()
		}
	}
	flush()
}

// registration is how the agent of a node of a crowd registers with a new leader.
func registration(s *state.State, node string) *actorpb.RegisterAgent {
	record, _ := s.Node(scheduling.NodeID(node))
	m := &actorpb.RegisterAgent{
		Node: node, Incarnation: record.GetIncarnation(), Session: 1, Resources: record.GetResources(), Version: record.GetVersion(), Host: record.GetHost(),
		Can: versions.Current, Token: &actorpb.Token{Term: statetest.Term},
	}
	for _, a := range s.AllocationsOfNode(scheduling.NodeID(node)) {
		m.Jobs = append(m.Jobs, &actorpb.HeldJob{JobId: a.GetJobId(), OperationId: a.GetOperationId(), Phase: actorpb.PhaseRunning, StartTime: a.GetStartTime(), Memory: 1 << 20})
	}
	return m
}

// register registers a node, however often it is refused, as an agent does. It calls done with the answer.
func register(r *testReplica, m *actorpb.RegisterAgent, done func(proto.Message)) {
	reply := func(answer proto.Message) {
		if refused, ok := answer.(*actorpb.Refused); ok {
			time.AfterFunc(time.Duration(refused.GetRetryMillis())*time.Millisecond, func() { register(r, m, done) })
			return
		}
		done(answer)
	}
	if !r.ToNode(m.GetNode(), m, reply) {
		time.AfterFunc(time.Millisecond, func() { register(r, m, done) })
	}
}

// BenchmarkFailover shows how long a leader takes from its election until the first new job is granted, and until all
// nodes have registered again, which all ask at once.
func BenchmarkFailover(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(200)) // that of replicas
	for _, nodes := range []int{5_000, 10_000} {
		crowd := statetest.Crowd{Nodes: nodes, Running: 30 * nodes}
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				failOver(b, crowd)
			}
		})
	}
}

func failOver(b *testing.B, crowd statetest.Crowd) {
	b.Helper()
	all := make([]*actorpb.RegisterAgent, crowd.Nodes)
	granted := make(chan time.Time, 1)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var began time.Time
	c := startCluster(b, 1, func(cfg *Config) {
		fill(b, cfg.Store, crowd)
		cfg.Timing = DefaultTiming()
		cfg.Timing.Node.Lease = within // nobody sends heartbeats
		cfg.Store.View(func(s *state.State) {
			for i := range all {
				all[i] = registration(s, statetest.Node(i))
			}
		})
		go watchGrants(ctx, cfg.Store, granted)
		runtime.GC() // of what was made to fill the store
		began = time.Now()
	})
	registered := make(chan time.Time, len(all))
	for _, m := range all {
		register(c.replicas[0], m, func(proto.Message) { registered <- time.Now() })
	}
	b.ReportMetric((<-granted).Sub(began).Seconds(), "first-grant-s")
	b.ReportMetric((<-registered).Sub(began).Seconds(), "first-registered-s")
	for range len(all) - 2 {
		<-registered
	}
	b.ReportMetric((<-registered).Sub(began).Seconds(), "all-registered-s")
	b.ReportMetric(0, "ns/op")
	c.replicas[0].crash()
}

// watchGrants tells when the first job is granted.
func watchGrants(ctx context.Context, store *raftstore.Store, first chan<- time.Time) {
	watch, err := store.Watch(store.Applied() + 1)
	for err == nil {
		var batch raftstore.Batch
		batch, err = watch.Next(ctx)
		for _, event := range batch.Events {
			if _, started := event.(state.AllocationsStarted); started {
				first <- time.Now()
				return
			}
		}
	}
}
