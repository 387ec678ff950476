package statepb

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestLeft tells what is left of 15 s, by clocks that agree with the order's time and
// by clocks that do not.
func TestLeft(t *testing.T) {
	ordered := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for story, test := range map[string]struct {
		grace time.Duration
		now   time.Time
		want  time.Duration
	}{
		"all of it at first":                    {15 * time.Second, ordered, 15 * time.Second},
		"some of it later":                      {15 * time.Second, ordered.Add(4 * time.Second), 11 * time.Second},
		"nothing after that":                    {15 * time.Second, ordered.Add(time.Hour), 0},
		"nothing of nothing":                    {0, ordered, 0},
		"no more than it by a clock far behind": {15 * time.Second, ordered.Add(-time.Hour), 15 * time.Second},
	} {
		t.Run(story, func(t *testing.T) {
			order := &StopOrder{Time: timestamppb.New(ordered), GraceMillis: test.grace.Milliseconds()}
			if got := order.Left(test.now); got != test.want {
				t.Errorf("%v left, want %v", got, test.want)
			}
		})
	}
}
