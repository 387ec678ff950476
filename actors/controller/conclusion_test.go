package controller

import (
	"errors"
	"testing"
	"testing/synctest"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/statistics"
)

// TestTheLastResultsCompleteTheOperation, whose end is heard of before the answer comes: the agent is still answered.
func TestTheLastResultsCompleteTheOperation(t *testing.T) {
	for name, test := range map[string]struct {
		result *commandpb.Result
		err    error
		want   string
	}{
		"counted":           {finishedJobs(&commandpb.FinishJobResult{JobId: "a"}), nil, "a: ack "},
		"counted before":    {finishedJobs(&commandpb.FinishJobResult{JobId: "a", Refusal: "unknown_allocation"}), nil, "a: ack unknown_allocation"},
		"refused":           {&commandpb.Result{Refusal: &commandpb.Refusal{Code: "stale_epoch"}}, nil, "a: refuse unavailable"},
		"nobody knows that": {nil, errors.New("outcome unknown"), "a: refuse unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, "running", func(s *stage) {
				s.running = []string{"a"}
				s.end("a", "a")
				s.want("propose FinishJobs 2 a", "propose AdvanceOperation")
				if m := s.commands[1].(*commandpb.AdvanceOperation); m.GetTerm() != 7 || m.GetFrom() != "completing" || m.GetTo() != "completed" {
					t.Errorf("the last step is %v", m)
				}
				s.mu.Lock()
				s.operation.State, s.running = "completed", nil
				s.mu.Unlock()
				s.look()
				s.system.Root.Send(s.pid, Over{})
				synctest.Wait()
				s.want()
				s.answer(test.result, test.err)
				s.want(test.want)
				s.gone()
			})
		})
	}
}

// TestTheLastResultsLeaveTheProfile: a profile has the samples that are committed and those of the results beside it.
func TestTheLastResultsLeaveTheProfile(t *testing.T) {
	onStage(t, "running", func(s *stage) {
		s.operation.Spec = sorting()
		s.running = []string{"a"}
		s.teach(.2, .2)
		s.say("a", &actorpb.JobEnded{Node: "n1", OperationId: "op", Job: &statepb.FinishedJob{
			JobId: "a", State: "completed", Statistics: &statepb.JobStatistics{Values: map[string]int64{statistics.UserMaxMemory: 1 << 20}},
		}})
		s.want("propose FinishJobs 2 a", "propose AdvanceOperation", "propose SaveMemoryProfiles")
		job := s.commands[0].(*commandpb.FinishJobs).GetJobs()[0]
		saved := s.commands[2].(*commandpb.SaveMemoryProfiles)
		if got := saved.GetProfiles()[0]; job.GetSample() == nil || saved.GetEpoch() != 2 || got.GetProfile().GetSampleCount() != 3 || got.GetExpectedSampleCount() != 0 {
			t.Errorf("saved %v with the job %v, want all three samples", saved, job)
		}
	})
}

func TestEndsWith(t *testing.T) {
	operation := func(change func(*statepb.Operation)) *statepb.Operation {
		op := sortOperation("running")
		op.Tasks = []*statepb.Task{{Name: "sort", Counters: &statepb.JobCounters{}}}
		if change != nil {
			change(op)
		}
		return op
	}
	completed, failed, again := &statepb.FinishedJob{State: "completed"}, &statepb.FinishedJob{State: "failed"}, &statepb.FinishedJob{State: "completed", Rerun: true}
	for name, test := range map[string]struct {
		op          *statepb.Operation
		allocations int
		jobs        []*statepb.FinishedJob
		want        bool
	}{
		"the last job completed":           {operation(nil), 1, []*statepb.FinishedJob{completed}, true},
		"the last two completed":           {operation(nil), 2, []*statepb.FinishedJob{completed, completed}, true},
		"another runs":                     {operation(nil), 2, []*statepb.FinishedJob{completed}, false},
		"one failed":                       {operation(nil), 2, []*statepb.FinishedJob{completed, failed}, false},
		"one runs again":                   {operation(nil), 1, []*statepb.FinishedJob{again}, false},
		"one is to run":                    {operation(func(op *statepb.Operation) { op.Tasks[0].Counters.Pending = 1 }), 1, []*statepb.FinishedJob{completed}, false},
		"a service goes on":                {operation(func(op *statepb.Operation) { op.Spec.Tasks[0].RestartCompletedJobs = true }), 1, []*statepb.FinishedJob{completed}, false},
		"the output is published first":    {operation(func(op *statepb.Operation) { op.Spec.Type, op.Spec.Map = "map", &statepb.MapSpec{} }), 1, []*statepb.FinishedJob{completed}, false},
		"the leader's affair":              {operation(func(op *statepb.Operation) { op.State = "completing" }), 1, []*statepb.FinishedJob{completed}, false},
		"the operation is not known (yet)": {nil, 0, []*statepb.FinishedJob{completed}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := endsWith(test.op, test.allocations, test.jobs); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
