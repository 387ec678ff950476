package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/apipb"
)

// TestPoolTree orders pools below their parents, whatever the order of the answer among siblings.
func TestPoolTree(t *testing.T) {
	var got []string
	for _, p := range poolTree([]*apipb.Pool{{Name: "a", Parent: "<Root>"}, {Name: "b", Parent: "<Root>"}, {Name: "b1", Parent: "b"}, {Name: "a1", Parent: "a"}, {Name: "a2", Parent: "a1"}}) {
		got = append(got, fmt.Sprint(p.Depth, p.Name))
	}
	if diff := cmp.Diff([]string{"0a", "1a1", "2a2", "0b", "1b1"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestJobRows says why a job has ended, or has to leave and until when.
func TestJobRows(t *testing.T) {
	deadline := timestamppb.New(noon)
	for name, test := range map[string]struct {
		job          *apipb.Job
		want         string
		wantDeadline time.Time
	}{
		"failed":    {&apipb.Job{Error: &apipb.Error{Message: "exited with code 3"}}, "exited with code 3", time.Time{}},
		"aborted":   {&apipb.Job{AbortReason: "node_offline"}, "node_offline", time.Time{}},
		"preempted": {&apipb.Job{Interruption: &apipb.Interruption{Reason: "preemption", Preemption: "graceful_preemption", Deadline: deadline}}, "graceful_preemption", noon},
		"both":      {&apipb.Job{AbortReason: "overdraft", Error: &apipb.Error{Message: "used 2 GiB"}}, "overdraft: used 2 GiB", time.Time{}},
	} {
		row := jobRows([]*apipb.Job{test.job})[0]
		if row.Why != test.want || !row.Deadline.Equal(test.wantDeadline) {
			t.Errorf("%s: %q until %v, want %q until %v", name, row.Why, row.Deadline, test.want, test.wantDeadline)
		}
	}
}
