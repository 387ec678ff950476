package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

func TestLeasesAreRenewedByWhoLeads(t *testing.T) {
	questions := make(chan chan error, 10)
	c := &confirmer{ctx: t.Context(), leads: func(context.Context) error {
		answer := make(chan error)
		questions <- answer
		return <-answer
	}}
	l := lead{confirmer: c, redirect: func() proto.Message { return &actorpb.Redirect{} }}
	said := make(chan proto.Message, 10)
	ask := func() { l.Reply(func(m proto.Message) { said <- m }, &actorpb.HeartbeatAck{Sequence: 1}) }
	hear := func() proto.Message {
		select {
		case m := <-said:
			return m
		case <-time.After(within):
			t.Fatal("no answer")
			return nil
		}
	}
	ask()
	first := <-questions
	// These ask while the first question is out: its answer is too old for them.
	ask()
	ask()
	first <- nil
	if m, ok := hear().(*actorpb.HeartbeatAck); !ok {
		t.Errorf("the leader's answer is %T", m)
	}
	second := <-questions
	if len(said) != 0 {
		t.Error("an answer came before its question")
	}
	second <- errors.New("deposed")
	for range 2 {
		if m, ok := hear().(*actorpb.Redirect); !ok {
			t.Errorf("the answer of one who leads no more is %T, want a redirect", m)
		}
	}
	if len(questions) != 0 {
		t.Error("two who asked at once did not share a question")
	}
}

// TestManyShareFewChecks has a thousand nodes ask for a second: all are answered soon, by few checks.
func TestManyShareFewChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, answered := 0, 0
		c := &confirmer{ctx: t.Context(), leads: func(context.Context) error {
			checks++
			time.Sleep(time.Millisecond)
			return nil
		}}
		for range 1000 {
			asked := time.Now()
			c.Confirm(func(leads bool) {
				answered++
				if took := time.Since(asked); !leads || took > confirmPause+2*time.Millisecond {
					t.Errorf("leads %v, after %v", leads, took)
				}
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if answered != 1000 || checks > 101 {
			t.Errorf("%d were answered by %d checks", answered, checks)
		}
	})
}
