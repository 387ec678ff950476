package actors

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/node"
	"weir/messages/actorpb"
)

func TestNewestHeartbeatWins(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := newHeartbeats()
	h.now = func() time.Time { return now }
	answers := map[uint64]proto.Message{}
	put := func(id string, sequence uint64) bool {
		return h.put(id, node.FromAgent{
			Message: &actorpb.Heartbeat{Node: id, Sequence: sequence},
			Reply:   func(answer proto.Message) { answers[sequence] = answer },
		})
	}
	if !put("n1", 1) || !put("n2", 10) {
		t.Error("the first heartbeat wakes nobody")
	}
	if put("n1", 2) {
		t.Error("a second heartbeat wakes again at once")
	}
	now = now.Add(wakeGap)
	if !put("n1", 3) {
		t.Error("an actor that may have missed the first wake is not woken again")
	}
	for _, older := range []uint64{1, 2} {
		if refused, ok := answers[older].(*actorpb.Refused); !ok || refused.GetCode() != "overloaded" {
			t.Errorf("heartbeat %d: got %v, want to be sent away", older, answers[older])
		}
	}
	if beat, ok := h.take("n1"); !ok || beat.Message.(*actorpb.Heartbeat).GetSequence() != 3 {
		t.Errorf("got %v, want the newest", beat.Message)
	}
	if _, ok := h.take("n1"); ok {
		t.Error("a heartbeat is taken twice")
	}
	if h.droppedCount() != 2 {
		t.Errorf("%d dropped, want 2", h.droppedCount())
	}
	h.clear(&actorpb.Redirect{})
	if _, ok := answers[10].(*actorpb.Redirect); !ok {
		t.Errorf("when the leader has gone: got %v, want a redirect", answers[10])
	}
	if _, ok := h.take("n2"); ok {
		t.Error("a heartbeat waits on")
	}
}
