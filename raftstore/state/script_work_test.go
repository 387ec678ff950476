package state

import (
	"fmt"

	"weir/messages/statepb"
	"weir/scheduling"
)

func reserveText(r *statepb.JobReserve) string {
	text := fmt.Sprintf("%d+%d", r.GetUser(), r.GetProxy())
	if r.GetPredecessor() != "" {
		text += " after " + r.GetPredecessor()
	}
	return text
}

// showWork shows what is kept beside the record of an operation, and what is in it of
// memory, gangs and inputs.
func (s *script) showWork(name string) {
	id := scheduling.OperationID(name)
	o, ok := s.state.Operation(id)
	if !ok {
		s.t.Fatalf("show work of %s: none", name)
	}
	statistics := s.state.Statistics(id)
	for i, t := range o.GetTasks() {
		task := scheduling.TaskName(t.GetName())
		fmt.Fprintf(&s.out, "task %s: job takes %d", task, t.GetJobResources().GetMemory())
		for _, d := range s.state.Demand(id) {
			if d.Task == task {
				fmt.Fprintf(&s.out, ", %d wait in group %d", d.Pending, d.Group)
			}
		}
		fmt.Fprintln(&s.out)
		if m := t.GetMemory(); m != nil {
			fmt.Fprintf(&s.out, "  digests %q %q samples=%d waiting=%v reserve=%s profile=%q saved=%t\n",
				m.GetUserDigest(), m.GetProxyDigest(), m.GetSampleCount(), sampleTexts(m.GetSamples()), reserveText(m.GetReserve()), m.GetProfile(), m.GetSaved())
		}
		if g := t.GetGang(); g != nil {
			fmt.Fprintf(&s.out, "  gang of %d, incarnation %d: completed %v %s\n", g.GetSize(), g.GetIncarnation(), g.GetCompleted(), g.GetReason())
		}
		if p := t.GetInput(); p != nil {
			fmt.Fprintf(&s.out, "  input: %d of %d bytes, rows=%d hash=%x skipped=%d\n", p.GetBytes(), p.GetBytesTotal(), p.GetRows(), p.GetHash(),
				p.GetSkippedRecords())
			for c := range t.GetCounters().GetTotal() {
				if given := s.state.Slices(id, task, scheduling.Cookie(c)); given != nil {
					fmt.Fprintf(&s.out, "  cookie %d reads %s\n", c, slicesText(given))
				}
			}
			for _, part := range s.state.Parts(id, task) {
				fmt.Fprintf(&s.out, "  cookie %d has read %s and written %q\n", part.GetCookie(), slicesText(part.GetSlices()), part.GetOutput().GetPart())
			}
		}
		for _, e := range statistics[i].Set {
			fmt.Fprintf(&s.out, "  %s of %s: count=%d sum=%d min=%d max=%d\n", e.Name, e.State, e.Count, e.Sum, e.Min, e.Max)
		}
	}
}

func sampleTexts(all []*statepb.MemorySample) []string {
	texts := make([]string, len(all))
	for i, m := range all {
		texts[i] = fmt.Sprintf("%v/%v", m.GetUser(), m.GetProxy())
	}
	return texts
}

// showSweep shows which cookies of an operation have failed, and how often.
func (s *script) showSweep(id scheduling.OperationID) {
	o, _ := s.state.Operation(id)
	fmt.Fprintf(&s.out, "sweep of %s: %s, %d count as failed%s\n", id, o.GetState(), o.GetFailedJobCount(), pairs(map[string]string{"retry_of": o.GetRetryOf()}))
	for _, t := range o.GetTasks() {
		givenUp, failed := s.state.GivenUp(id, scheduling.TaskName(t.GetName())), s.state.Failed(id, scheduling.TaskName(t.GetName()))
		c := t.GetCounters()
		fmt.Fprintf(&s.out, "  task %s: total=%d failed=%d given_up=%d %v, failed and not completed %v, failures of those to run again: %v\n",
			t.GetName(), c.GetTotal(), c.GetFailed(), c.GetGivenUp(), givenUp.Intervals(), failed.Intervals(), t.GetFailures())
	}
	for _, j := range o.GetFinishedJobs() {
		if j.GetFailures() > 0 {
			fmt.Fprintf(&s.out, "  job %s: cookie %d has failed %d times, given up: %t\n", j.GetJobId(), j.GetCookie(), j.GetFailures(), j.GetGivenUp())
		}
	}
}
