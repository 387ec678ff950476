package state

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// grace draws how long a job has to leave.
func (g generator) grace() int64 {
	return rapid.SampledFrom([]int64{0, 0, 500, 5000, 15000, 600000, -1}).Draw(g.T, "grace")
}

func (g generator) stop() proto.Message {
	m := &commandpb.StopJobs{OperationId: g.operation().GetId(), Order: &statepb.StopOrder{
		Reason: g.one([]string{"preemption", "user_request", "interruption_timeout", "mood"}, "why"), GraceMillis: g.grace(),
		Interruption: g.one([]string{"", statepb.InterruptedByUser, statepb.InterruptedByUser, statepb.InterruptedByPreemption}, "interruption"),
	}}
	for _, a := range g.state.Allocations() {
		m.JobIds = append(m.JobIds, a.GetJobId())
	}
	return m
}

// now is the time of the state, or some time when it has none.
func (g generator) now() time.Time { return later(g.state.LastTime(), epochStart) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// claim draws whether a grant is of a job for which room is held on its node.
func (g generator) claim(grant *commandpb.Grant) {
	for _, claim := range g.state.claims.of[scheduling.OperationID(grant.GetOperationId())] {
		if claim.GetNode() == grant.GetNode() && claim.GetBeneficiary().GetTask() == grant.GetTask() && g.mostly() {
			grant.ClaimTime = claim.GetPlannedTime()
			return
		}
	}
}

func (g generator) preempt() proto.Message {
	m := &commandpb.PreemptAllocations{Term: g.term(), Tree: g.one([]string{"", "", "default", "gpu"}, "tree")}
	for _, a := range g.state.Allocations() {
		if g.pick(3, "goes") == 0 {
			continue
		}
		kind := lifecycle.PreemptionKind(g.pick(6, "kind of preemption"))
		order := &statepb.StopOrder{Preemption: kind.String(), GraceMillis: g.grace()}
		if g.pick(2, "for somebody") == 0 {
			order.PreemptedFor = &statepb.Beneficiary{
				OperationId: g.operation().GetId(), Task: g.one([]string{"s", "s", "t"}, "task"), Resources: jobSize(), HoldMillis: g.grace(),
			}
		}
		p := &commandpb.Preemption{JobId: a.GetJobId(), Order: order}
		if g.mostly() {
			order.PlannedTime = timestamppb.New(g.now().Add(-time.Duration(g.pick(100, "seconds ago")) * time.Second))
			p.RatedPools = rapid.SliceOfN(rapid.Uint64Range(0, 4), 0, 3).Draw(g.T, "rated pools")
		}
		m.Preemptions = append(m.Preemptions, p)
		if g.pick(6, "twice") == 0 {
			m.Preemptions = append(m.Preemptions, m.Preemptions[0])
		}
	}
	return m
}

// handOver draws a word about jobs, most of which are to leave; where none is, and some would
// be replaced, their node is drained.
func (g generator) handOver() proto.Message {
	m := &commandpb.HandOver{Term: g.term(), OperationId: g.operation().GetId()}
	for _, a := range g.state.Allocations() {
		if op, ok := g.state.Operation(scheduling.OperationID(a.GetOperationId())); ok && a.GetStop() == nil && op.GetSpec().HandsOver() && g.mostly() {
			return &commandpb.DrainNode{Node: a.GetNode(), User: "ann", InterruptMillis: 600_000}
		}
	}
	for _, a := range g.state.Allocations() {
		if a.GetStop().GetHeldUntil() == nil && g.mostly() {
			continue
		}
		m.OperationId = a.GetOperationId()
		switch g.pick(3, "hand over") {
		case 0:
			m.ReplaceJobIds = append(m.ReplaceJobIds, a.GetJobId())
		case 1:
			m.ReleaseJobIds = append(m.ReleaseJobIds, a.GetJobId())
		}
	}
	return m
}
