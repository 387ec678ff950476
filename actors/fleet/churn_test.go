package fleet

import (
	"context"
	"testing"

	"weir/messages/actorpb"
)

// TestChurnCompletesRunningJobsByTurns has a node with two jobs that run and one that has been told to leave, and a node
// without jobs.
func TestChurnCompletesRunningJobsByTurns(t *testing.T) {
	c := newControllers(nil)
	f, busy := fleetOf(c, nil)
	f.nodes = append(f.nodes, &node{fleet: f})
	busy.plan(planOf(1, "running", "more", "told"))
	busy.plan(&actorpb.NodePlan{Token: &actorpb.Token{Term: 1}, Abort: []*actorpb.AbortJob{{JobId: "told", Reason: "preemption"}}})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		f.Churn(ctx, 1000)
		close(stopped)
	}()
	c.await(t, map[string]string{"running": "completed", "more": "completed", "told": "aborted"})
	cancel()
	<-stopped
}
