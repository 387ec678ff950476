package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/remote"
	"weir/messages/actorpb"
)

// onAnswer is a peer that does something the moment that its answer comes.
type onAnswer func()

// SendUserMessage implements actor.Process.
func (do onAnswer) SendUserMessage(*actor.PID, any) { do() }

// SendSystemMessage implements actor.Process.
func (onAnswer) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (onAnswer) Stop(*actor.PID) {}

// TestWhoIsAnsweredMayAskAgain at once, though no more than one may be in flight.
func TestWhoIsAnsweredMayAskAgain(t *testing.T) {
	inHall(t, Limits{InFlight: 1, AgentInFlight: 1, Waiting: 2, AgentWaiting: 1, RetryMillis: 7}, func(h *hall) {
		beat := &remote.Inbound{From: h.agent("n1"), Message: &actorpb.Heartbeat{Node: "n1"}}
		again := actor.NewFuture(h.system, time.Hour)
		first, _ := h.system.ProcessRegistry.Add(onAnswer(func() { h.system.Root.RequestWithCustomSender(h.pid, beat, again.PID()) }), "n1")
		h.system.Root.RequestWithCustomSender(h.pid, beat, first)
		synctest.Wait()
		h.replies[0](&actorpb.HeartbeatAck{})
		synctest.Wait()
		if len(h.replies) != 2 {
			h.t.Fatal("the next heartbeat did not reach its node")
		}
		h.replies[1](&actorpb.HeartbeatAck{Sequence: 2})
		if ack, ok := h.answer(again).(*actorpb.HeartbeatAck); !ok || ack.GetSequence() != 2 {
			h.t.Errorf("got %v, want the second answer", ack)
		}
	})
}
