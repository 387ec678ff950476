package signal

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a clock that stands still.
func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func signalOf(job string, deadline time.Time, gone bool) *actorpb.InterruptionSignal {
	return &actorpb.InterruptionSignal{JobId: job, Reason: "user_request", Deadline: timestamppb.New(deadline), Gone: gone}
}

func TestTable(t *testing.T) {
	signals := NewSignals(time.Minute, 3, at(noon))
	deadline := noon.Add(10 * time.Minute)
	steps := []struct {
		story    string
		signal   *actorpb.InterruptionSignal
		wantNews bool
		wantLive bool
	}{
		{"the first word of a job is news", signalOf("a", deadline, false), true, true},
		{"the same word again is not", signalOf("a", deadline, false), false, true},
		{"nor is a later deadline", signalOf("a", deadline.Add(time.Second), false), false, true},
		{"a deadline that has come nearer is", signalOf("a", deadline.Add(-time.Minute), false), true, true},
		{"that it has gone is", signalOf("a", deadline, true), true, false},
		{"a late word does not bring it back", signalOf("a", deadline, false), false, false},
		{"a word about no job is dropped", signalOf("", deadline, false), false, false},
		{"a job that has gone before it was heard of", signalOf("b", deadline, true), true, false},
	}
	for _, step := range steps {
		if got := signals.Add(step.signal); got != step.wantNews {
			t.Errorf("%s: news %t, want %t", step.story, got, step.wantNews)
		}
		if got := signals.Stopping(step.signal.GetJobId()) != ""; got != step.wantLive {
			t.Errorf("%s: live %t, want %t", step.story, got, step.wantLive)
		}
	}
}

// TestProposed: an order that is about to be committed is told ahead, and taken back.
func TestProposed(t *testing.T) {
	said := func(sequence uint64, change func(*actorpb.InterruptionSignal)) *actorpb.InterruptionSignal {
		s := signalOf("a", noon.Add(time.Minute), false)
		s.Origin, s.Sequence = "r1", sequence
		change(s)
		return s
	}
	proposed := func(s *actorpb.InterruptionSignal) { s.Proposed = true }
	withdrawn := func(s *actorpb.InterruptionSignal) { s.Withdrawn = true }
	committed := func(*actorpb.InterruptionSignal) {}
	for name, test := range map[string]struct {
		signals []*actorpb.InterruptionSignal
		after   time.Duration
		want    bool
	}{
		"it counts at once":                          {[]*actorpb.InterruptionSignal{said(1, proposed)}, 0, true},
		"and for a while only":                       {[]*actorpb.InterruptionSignal{said(1, proposed)}, 10 * time.Second, false},
		"it is taken back":                           {[]*actorpb.InterruptionSignal{said(1, proposed), said(2, withdrawn)}, 0, false},
		"in whichever order that is heard":           {[]*actorpb.InterruptionSignal{said(2, withdrawn), said(1, proposed)}, 0, false},
		"and proposed again":                         {[]*actorpb.InterruptionSignal{said(1, proposed), said(2, withdrawn), said(3, proposed)}, 0, true},
		"what is committed stays":                    {[]*actorpb.InterruptionSignal{said(1, proposed), said(2, committed)}, 30 * time.Second, true},
		"what is committed is not taken back":        {[]*actorpb.InterruptionSignal{said(1, committed), said(2, withdrawn)}, 0, true},
		"what was taken back may be committed later": {[]*actorpb.InterruptionSignal{said(1, proposed), said(2, withdrawn), said(3, committed)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := noon
			signals := NewSignals(time.Minute, 3, func() time.Time { return now })
			for _, s := range test.signals {
				signals.Add(s)
			}
			now = noon.Add(test.after)
			signals.Expire()
			if got := signals.Stopping("a") != ""; got != test.want || len(signals.OfOperation("")) > 0 != test.want {
				t.Errorf("it is on its way out: %t, want %t", got, test.want)
			}
		})
	}
}

func TestTableForgets(t *testing.T) {
	now := noon
	signals := NewSignals(time.Minute, 3, func() time.Time { return now })
	signals.Add(signalOf("long", noon.Add(10*time.Minute), false))
	signals.Add(signalOf("short", noon, false))
	now = noon.Add(2 * time.Minute)
	forgotten := signals.Expire()
	if len(forgotten) != 1 || signals.Stopping("short") != "" || signals.Stopping("long") == "" || len(signals.All()) != 1 {
		t.Errorf("after two minutes: %v, want the signal with the long deadline", signals.All())
	}
	now = noon.Add(11 * time.Minute)
	signals.Expire()
	if len(signals.All())+len(signals.Of("")) != 0 {
		t.Errorf("after eleven minutes: %v, want nothing", signals.All())
	}
}

func TestTableIsBounded(t *testing.T) {
	signals := NewSignals(time.Minute, 3, at(noon))
	for i := range 10 {
		signals.Add(signalOf(fmt.Sprint(i), noon, false))
	}
	all := signals.All()
	if len(all) != 3 || all[0].GetJobId() != "7" || all[2].GetJobId() != "9" || len(signals.Of("")) != 3 {
		t.Errorf("kept %v, want the last three", all)
	}
}
