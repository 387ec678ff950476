package fleet

import (
	"context"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// TestChurnCompletesRunningJobsByTurns has a node with two jobs that run and one that has ended, and a node without
// jobs.
func TestChurnCompletesRunningJobsByTurns(t *testing.T) {
	made := func(phase string) *job { return &job{phase: phase, told: make(chan *statepb.FinishedJob, 1)} }
	running, more, over := made(actorpb.PhaseRunning), made(actorpb.PhaseRunning), made(actorpb.PhaseEnded)
	busy := &node{jobs: map[string]*job{"running": running, "more": more, "over": over}}
	f := &Fleet{nodes: []*node{busy, {}}}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		f.Churn(ctx, 1000)
		close(stopped)
	}()
	for _, job := range []*job{running, more} {
		if told := <-job.told; told.GetState() != "completed" {
			t.Errorf("a job has ended as %q", told.GetState())
		}
	}
	cancel()
	<-stopped
	if len(over.told) != 0 {
		t.Error("a job that had ended has completed again")
	}
}
