package state

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// Ahead returns the allocations that a command orders to leave, so that the orders can be announced
// before the command is committed. Each allocation has the stop order that it would get if the
// command were applied to this state now. Ahead leaves out jobs that are killed at once and jobs
// whose order is held. For commands that end a whole operation, it returns nothing.
func (s *State) Ahead(now time.Time, msg proto.Message) (leaving []*statepb.Allocation) {
	add := func(a *statepb.Allocation, order *statepb.StopOrder) {
		a = shallow(a)
		a.Stop = order
		known := s.operations[scheduling.OperationID(a.GetOperationId())].record.StopOrderFor(a)
		if known.Interrupted() && known.GetGraceMillis() > 0 && known.GetHeldUntil() == nil {
			leaving = append(leaving, a)
		}
	}
	give := func(job scheduling.JobID, order *statepb.StopOrder, interruption string) {
		a, ok := s.allocations.of(job)
		if !ok || order == nil {
			return
		}
		order = shallow(order)
		order.Time, order.Interruption = timestamppb.New(now), cmp.Or(order.GetInterruption(), interruption)
		if next, news := s.operations[scheduling.OperationID(a.GetOperationId())].ordered(a, order); news {
			add(a, next)
		}
	}
	switch m := msg.(type) {
	case *commandpb.PreemptAllocations:
		for _, p := range m.GetPreemptions() {
			give(scheduling.JobID(p.GetJobId()), p.GetOrder(), statepb.InterruptedByPreemption)
		}
	case *commandpb.StopJobs:
		for _, job := range m.GetJobIds() {
			give(scheduling.JobID(job), m.GetOrder(), "")
		}
	case *commandpb.DrainNode:
		if n, ok := s.nodes[scheduling.NodeID(m.GetNode())]; ok && m.GetInterruptMillis() > 0 {
			for job := range n.allocations {
				give(job, drainOrder(m, "", nil), "")
			}
		}
	case *commandpb.HandOver:
		for _, job := range m.GetReleaseJobIds() {
			if a, ok := s.allocations.of(scheduling.JobID(job)); ok && a.GetStop().GetHeldUntil() != nil {
				add(a, released(a.GetStop()))
			}
		}
	}
	return leaving
}
