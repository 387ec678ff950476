package check

import (
	"slices"

	"weir/chaos/history"
	"weir/scheduling/lifecycle"
)

// counted checks invariant S5.
func counted(x *index, say report) {
	for i := range x.Operations {
		o := &x.Operations[i]
		counters(o, say)
		if o.State == lifecycle.Completed.String() {
			x.done(o, say)
		}
	}
}

// counters compares the counters of an operation with each other and with the
// records of its attempts.
func counters(o *history.Operation, say report) {
	for _, t := range o.Tasks {
		states := make(map[string]int64)
		for _, j := range o.Jobs {
			if j.Task == t.Name {
				states[j.State]++
			}
		}
		say := say.about("operation %s task %s: ", o.ID, t.Name)
		if t.Total != t.Pending+t.Running+t.Completed {
			say("counters do not add up: total %d, but pending %d, running %d, completed %d", t.Total, t.Pending, t.Running, t.Completed)
		}
		for _, c := range []struct {
			what  string
			count int64
		}{{"completed", t.Completed}, {"failed", t.Failed}, {"aborted", t.Aborted}} {
			if states[c.what] != c.count {
				say("%d attempts are counted as %s, but there are %d", c.count, c.what, states[c.what])
			}
		}
		if t.Failed > 0 {
			say("%d attempts failed, but witnesses never fail", t.Failed)
		}
	}
}

// done checks that each cookie of a completed operation was completed by one attempt,
// and that a witness saw the end of that attempt unless its node is simulated.
func (x *index) done(o *history.Operation, say report) {
	for _, t := range o.Tasks {
		if t.Completed != t.Total {
			say("operation %s is completed, but %d of %d jobs of task %s are", o.ID, t.Completed, t.Total, t.Name)
		}
		for number := range int(t.Total) {
			c := cookie{o.ID, t.Name, number}
			var completed []string
			for _, j := range x.attempts[c] {
				if j.State != lifecycle.JobCompleted.String() {
					continue
				}
				completed = append(completed, j.ID)
				if t.Name != history.SimulatedTask && !slices.ContainsFunc(x.lives[c], func(l life) bool { return l.job == j.ID && l.done }) {
					say("cookie %s was counted as completed by %s, but no witness recorded its end", c, j.ID)
				}
			}
			if len(completed) != 1 {
				say("cookie %s was completed by %d attempts %v", c, len(completed), completed)
			}
		}
	}
}

// alone checks invariant S6. Of a killed process only the last tick is known; it lived at least
// until that tick.
func alone(x *index, say report) {
	for _, s := range x.Sights {
		if s.What == history.Locked {
			say("cookie %s: attempt %s (pid %d) found its lock held by another attempt", cookie{s.Operation, s.Task, s.Cookie}, s.Job, s.Pid)
		}
	}
	for _, c := range x.cookies {
		lives := x.lives[c]
		for i := 1; i < len(lives); i++ {
			longest := lives[0]
			for _, l := range lives[1:i] {
				if l.end > longest.end {
					longest = l
				}
			}
			if now := lives[i]; now.begin < longest.end {
				say("cookie %s: attempt %s (pid %d) began %.3f s before attempt %s (pid %d) was last seen",
					c, now.job, now.pid, float64(longest.end-now.begin)/1e9, longest.job, longest.pid)
			}
		}
	}
}
