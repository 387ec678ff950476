package events

import (
	"fmt"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// BenchmarkTell measures what the state machine pays for the events of jobs that start,
// by the job.
func BenchmarkTell(b *testing.B) {
	s := state.New()
	index := uint64(1)
	s.Apply(index, &commandpb.RegisterNode{Node: &statepb.Node{Id: "n", Incarnation: 1, Resources: size}})
	teller := NewTeller(s)
	const jobs = 1000
	started := state.AllocationsStarted{}
	for i := range jobs {
		started.Allocations = append(started.Allocations, &statepb.Allocation{
			JobId: fmt.Sprintf("01a1feeb-bf71-7c20-850a-%012d", i), OperationId: "01a1feeb-bf08-7996-aeec-7bedc7d72bf3", Task: "t", Node: "n", Pool: "ads", Resources: size,
		})
	}
	msg := &commandpb.StartAllocations{}
	b.ReportAllocs()
	for b.Loop() {
		var told []*eventpb.Event
		if told = teller.Tell(told, index, msg, []state.Event{started}, s); len(told) != jobs {
			b.Fatal(len(told))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*jobs), "ns/job")
}
