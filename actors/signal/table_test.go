package signal

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func signalOf(job string, deadline time.Time, gone bool) *actorpb.InterruptionSignal {
	return &actorpb.InterruptionSignal{JobId: job, Reason: "user_request", Deadline: timestamppb.New(deadline), Gone: gone}
}

func TestTable(t *testing.T) {
	table := NewTable(time.Minute, 3)
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
		if got := table.Add(noon, step.signal); got != step.wantNews {
			t.Errorf("%s: news %t, want %t", step.story, got, step.wantNews)
		}
		if got := table.Live(step.signal.GetJobId()) != nil; got != step.wantLive {
			t.Errorf("%s: live %t, want %t", step.story, got, step.wantLive)
		}
	}
}

func TestTableForgets(t *testing.T) {
	table := NewTable(time.Minute, 3)
	table.Add(noon, signalOf("long", noon.Add(10*time.Minute), false))
	table.Add(noon, signalOf("short", noon, false))
	table.Expire(noon.Add(2 * time.Minute))
	if table.Live("short") != nil || table.Live("long") == nil || len(table.All()) != 1 {
		t.Errorf("after two minutes: %v, want the signal with the long deadline", table.All())
	}
	table.Expire(noon.Add(11 * time.Minute))
	if len(table.All()) != 0 {
		t.Errorf("after eleven minutes: %v, want nothing", table.All())
	}
}

func TestTableIsBounded(t *testing.T) {
	table := NewTable(time.Minute, 3)
	for i := range 10 {
		table.Add(noon, signalOf(fmt.Sprint(i), noon, false))
	}
	all := table.All()
	if len(all) != 3 || all[0].GetJobId() != "7" || all[2].GetJobId() != "9" {
		t.Errorf("kept %v, want the last three", all)
	}
}
