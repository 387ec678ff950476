package actors

import (
	"errors"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/scheduler"
	"weir/messages/actorpb"
)

// TestAFloodOfQuestionsIsRefused at the door of the leader: nothing of it is sent to the
// scheduler.
func TestAFloodOfQuestionsIsRefused(t *testing.T) {
	d := &desk{r: &Replica{cfg: Config{ID: "r1"}}}
	d.r.cfg.Gateway.RetryMillis = 70
	d.r.leader.Store(&actor.PID{})
	for range scheduler.MaxAskers {
		if !d.r.askers.Enter() {
			t.Fatal("one was kept out too early")
		}
	}
	answer := d.SchedulerView(t.Context(), &actorpb.SchedulerViewRequest{Explain: true, Operation: "op"})
	if refused, ok := answer.(*actorpb.Refused); !ok || refused.GetRetryMillis() != 70 {
		t.Fatalf("got %v", answer)
	}
	if _, err := expect[*actorpb.SchedulerView](answer); !errors.Is(err, ErrOverloaded) {
		t.Errorf("got %v, want %v", err, ErrOverloaded)
	}
}
