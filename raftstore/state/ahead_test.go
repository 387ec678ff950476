package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// leavingIn returns the orders that jobs know of and that leave them time.
func leavingIn(s *State) map[string]*statepb.StopOrder {
	orders := map[string]*statepb.StopOrder{}
	for a := range s.allocations.all() {
		order := s.operations[scheduling.OperationID(a.GetOperationId())].record.StopOrderFor(a)
		if order.Interrupted() && order.GetGraceMillis() > 0 {
			orders[a.GetJobId()] = order
		}
	}
	return orders
}

// appliedAt returns the time at which a command is applied.
func appliedAt(s *State, msg proto.Message) time.Time {
	if m, ok := msg.(timed); ok && m.GetTime().AsTime().After(s.lastTime) {
		return m.GetTime().AsTime()
	}
	return s.lastTime
}

// checkAhead compares what was told ahead of a command with what it has led to: who was told of
// leaves, unless the command was refused or his part of it, and nobody else leaves.
func checkAhead(s *State, msg proto.Message, ahead []*statepb.Allocation, before map[string]*statepb.StopOrder, result *commandpb.Result) error {
	switch msg.(type) {
	case *commandpb.PreemptAllocations, *commandpb.StopJobs, *commandpb.DrainNode, *commandpb.HandOver:
	default:
		if len(ahead) > 0 {
			return fmt.Errorf("%d jobs were told ahead of it", len(ahead))
		}
		return nil
	}
	refused := map[string]bool{}
	for _, job := range result.GetFinishJobs().GetJobs() {
		refused[job.GetJobId()] = refused[job.GetJobId()] || job.GetRefusal() != ""
	}
	after, expected := leavingIn(s), map[string]bool{}
	for _, a := range ahead {
		job := a.GetJobId()
		expected[job] = true
		got := after[job]
		if result.GetRefusal() == nil && !refused[job] && (got.Why() != a.GetStop().Why() || got.GetGraceMillis() != a.GetStop().GetGraceMillis()) {
			return fmt.Errorf("job %s was told of %v ahead, and has %v", job, a.GetStop(), got)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(after)) {
		if !expected[job] && !proto.Equal(after[job], before[job]) {
			return fmt.Errorf("job %s was not told ahead of %v", job, after[job])
		}
	}
	return nil
}
