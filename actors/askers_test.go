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
	r := &Replica{cfg: Config{ID: "r1"}}
	r.cfg.Gateway.RetryMillis = 70
	r.leader.Store(&actor.PID{})
	for range scheduler.MaxAskers {
		if !r.askers.Enter() {
			t.Fatal("one was kept out too early")
		}
	}
	answer := r.Answer(t.Context(), &actorpb.SchedulerViewRequest{Explain: true, Operation: "op"})
	if refused, ok := answer.(*actorpb.Refused); !ok || refused.GetRetryMillis() != 70 {
		t.Fatalf("got %v", answer)
	}
	if _, err := expect[*actorpb.SchedulerView](answer); !errors.Is(err, ErrOverloaded) {
		t.Errorf("got %v, want %v", err, ErrOverloaded)
	}
}
