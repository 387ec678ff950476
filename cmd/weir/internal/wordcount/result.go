package wordcount

import (
	"fmt"
	"slices"
	"time"
)

// Result is the result of a run.
type Result struct {
	// Source is the folder.
	Source string
	// Jobs is the number of jobs of the operation; Completed is the number of cookies that
	// completed.
	Jobs      int
	Completed int64
	// Failed and Aborted count the failed and the aborted attempts. After each of them its
	// cookie ran again.
	Failed, Aborted int64
	// State is the operation's final state. Error is its error message, if it did not complete.
	State, Error string
	// Leader is the replica that was killed, "" for none. CompletedAtKill and RunningAtKill
	// count the jobs at that time; Survived counts the running ones that completed later.
	Leader          string
	CompletedAtKill int
	RunningAtKill   int
	Survived        int
	// Outage is the time without a leader; Total is the time from the start to the last output.
	Outage, Total time.Duration
	// Lost counts cookies without output.
	Lost int
	// Files and Words are the jobs' counts; DirectFiles and DirectWords are the counts made
	// directly.
	Files, DirectFiles int
	Words, DirectWords int64
	// Differences lists what is wrong, one line each.
	Differences []string

	wantKill bool
}

// check compares the jobs' outputs with the direct counts.
func (r *Result) check(direct Counts, outputs map[int]string) {
	counted, wrong := merge(outputs)
	r.Files, r.Words = len(counted), counted.Words()
	wrong = append(wrong, compare(direct, counted)...)
	var faults []string
	if r.State != completed {
		faults = append(faults, fmt.Sprintf("the operation is %s: %s", r.State, r.Error))
	}
	for cookie := range r.Jobs {
		if _, ok := outputs[cookie]; !ok {
			r.Lost++
		}
	}
	if r.Lost > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d jobs left no output", r.Lost, r.Jobs))
	}
	if r.Completed != int64(r.Jobs) {
		faults = append(faults, fmt.Sprintf("%d of %d jobs are counted as completed", r.Completed, r.Jobs))
	}
	if r.wantKill && r.Leader == "" {
		faults = append(faults, "the operation ended before its leader could be killed")
	}
	if r.Survived != r.RunningAtKill && r.Failed == 0 {
		faults = append(faults, fmt.Sprintf("%d of the %d jobs that ran when the leader was killed did not complete", r.RunningAtKill-r.Survived, r.RunningAtKill))
	}
	r.Differences = slices.Concat(faults, shorten(wrong))
}

// Row is one line of the summary.
type Row struct{ Name, Value string }

// Summary returns the result for people, without Lost and Differences.
func (r *Result) Summary() []Row {
	rows := []Row{
		{"source", r.Source},
		{"jobs", fmt.Sprint(r.Jobs)},
		{"completed", fmt.Sprint(r.Completed)},
		{"reruns", fmt.Sprint(r.Failed + r.Aborted)},
		{"failed", fmt.Sprint(r.Failed)},
		{"aborted", fmt.Sprint(r.Aborted)},
	}
	if r.Leader != "" {
		rows = append(rows,
			Row{"leader killed", fmt.Sprintf("%s, with %d jobs completed", r.Leader, r.CompletedAtKill)},
			Row{"running at that time", fmt.Sprintf("%d jobs, of which %d completed", r.RunningAtKill, r.Survived)},
			Row{"time without a leader", r.Outage.Round(time.Millisecond).String()},
		)
	}
	return append(rows,
		Row{"files", fmt.Sprintf("%d (directly: %d)", r.Files, r.DirectFiles)},
		Row{"words", fmt.Sprintf("%d (directly: %d)", r.Words, r.DirectWords)},
		Row{"total time", r.Total.Round(100 * time.Millisecond).String()},
	)
}
