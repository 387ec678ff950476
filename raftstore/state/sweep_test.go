package state

import (
	"strings"
	"testing"

	"weir/messages/statepb"
	"weir/scheduling/cookies"
)

// TestSweepsThatAreWrong restores records that contradict themselves about which cookies have
// failed, and how often. In what they spoil cookies 2 and 3 of 4 are pending, the others run.
func TestSweepsThatAreWrong(t *testing.T) {
	giveUp := func(o *statepb.Operation) {
		o.Spec.Tasks[0].MaxAttempts, o.FailedJobCount, o.GivenUpError = 2, 1, &statepb.Error{Message: "exit code 5"}
		task := o.Tasks[0]
		task.GivenUp, task.Pending = []*statepb.Interval{{Begin: 2, End: 3}}, []*statepb.Interval{{Begin: 3, End: 4}}
		task.Counters.Pending, task.Counters.GivenUp, task.Counters.Failed = 1, 1, 2
	}
	for story, test := range map[string]struct {
		spoil func(o *statepb.Operation)
		want  string
	}{
		"one is given up":                       {func(*statepb.Operation) {}, ""},
		"one that is given up and waits":        {func(o *statepb.Operation) { o.Tasks[0].Pending[0].Begin = 2 }, "in more than one of the sets"},
		"one is not counted":                    {func(o *statepb.Operation) { o.Tasks[0].Counters.GivenUp = 0 }, "total is not pending + running + completed + given up"},
		"another is counted":                    {func(o *statepb.Operation) { o.Tasks[0].Counters.GivenUp, o.Tasks[0].Counters.Pending = 2, 0 }, "1 given up cookies, but counted as"},
		"it does not count for the operation":   {func(o *statepb.Operation) { o.FailedJobCount = 2 }, "2 failed jobs, but the tasks count 1"},
		"it was given up without a limit":       {func(o *statepb.Operation) { o.Spec.Tasks[0].MaxAttempts, o.FailedJobCount = 0, 2 }, "are given up, but max_attempts is 0 and the error is"},
		"nobody knows why":                      {func(o *statepb.Operation) { o.GivenUpError = nil }, "the error is <nil>"},
		"it has attempts":                       {func(o *statepb.Operation) { o.Tasks[0].Attempts = map[int32]int32{2: 2} }, "attempts of cookie 2 are counted, but it does not run again"},
		"it has failures":                       {func(o *statepb.Operation) { o.Tasks[0].Failures = map[int32]int32{2: 1} }, "failures of cookie 2 are counted as 1, but it does not run again or the number is invalid for max_attempts 2"},
		"another has failed as often as it may": {func(o *statepb.Operation) { o.Tasks[0].Failures = map[int32]int32{3: 2} }, "failures of cookie 3 are counted as 2, but it does not run again or the number is invalid for max_attempts 2"},
		"one that is none has failed":           {func(o *statepb.Operation) { o.Tasks[0].Failures = map[int32]int32{4: 1} }, "failures of cookie 4 are counted as 1, but it does not run again or the number is invalid for max_attempts"},
		"one of a gang has failed":              {func(o *statepb.Operation) { o.Spec.IsGang, o.Tasks[0].Failures = true, map[int32]int32{3: 1} }, "failures of cookie 3 are counted as 1, but it does not run again or the number is invalid for max_attempts"},
		"one counts as failed before the end":   {func(o *statepb.Operation) { o.Tasks[0].Failed = []*statepb.Interval{{Begin: 3, End: 4}} }, "cookie 3 is kept as failed"},
		"it has a reserve of its own": {func(o *statepb.Operation) {
			o.Tasks[0].Reserves = map[int32]*statepb.CookieReserve{2: {Reserve: &statepb.JobReserve{User: 1}}}
		}, "cookie 2 has a reserve of its own"},
		"the task has others": {func(o *statepb.Operation) {
			o.Spec.Tasks[0].Cookies = []*statepb.Interval{{Begin: 0, End: 3}, {Begin: 7, End: 8}}
		}, "want [{0 3} {7 8}]"},
		"intervals that are none are given up":    {func(o *statepb.Operation) { o.Tasks[0].GivenUp[0].End = 2 }, "given up: cookie interval 0"},
		"intervals that are none count as failed": {func(o *statepb.Operation) { o.Tasks[0].Failed = []*statepb.Interval{{Begin: 1, End: 1}} }, "failed: cookie interval 0"},
	} {
		t.Run(story, func(t *testing.T) {
			r := recordsOf(t, busy(t).state.Freeze())
			o := operationRecord(r, "ann")
			giveUp(o)
			test.spoil(o)
			_, err := restore(r)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want it to say %q", err, test.want)
			}
		})
	}
}

func TestCookiesText(t *testing.T) {
	set := cookies.Of(3, 7, 8, 9, 20)
	for most, want := range map[int]string{5: "3, 7-9, 20", 3: "3, 7-9, 20", 2: "3, 7-9, and 1 more", 1: "3, and 2 more"} {
		if got := cookiesText(&set, most); got != want {
			t.Errorf("of %d: %q, want %q", most, got, want)
		}
	}
	if got := cookiesText(&cookies.IntervalSet{}, 3); got != "" {
		t.Errorf("of none: %q", got)
	}
}
