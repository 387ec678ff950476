package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

const (
	// maxSamples bounds the samples of a task that are in no digest yet. Further samples
	// are dropped until the task's controller catches up.
	maxSamples = 10000
	// maxDigest bounds an encoded digest, in bytes.
	maxDigest = 1 << 20
)

// checkReserve returns an error if no job can have such a reserve.
func checkReserve(r *statepb.JobReserve) error {
	var b breach
	for _, part := range []int64{r.GetUser(), r.GetProxy()} {
		b.when(part < 0, "memory reserve: %d bytes for the job or its proxy: must not be negative", part)
	}
	total := sum(r.GetUser(), r.GetProxy())
	b.when(total <= 0 || total > resource.Infinite.Memory, "memory reserve: %d bytes in all: use 1 to %d", total, resource.Infinite.Memory)
	for _, factor := range []float64{r.GetUserFactor(), r.GetProxyFactor()} {
		b.when(!amount(factor), "memory reserve: factor %v must be finite and not negative", factor)
	}
	return b.err
}

// amount reports whether a number is finite and not negative.
func amount(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }

func checkDigests(digests ...[]byte) error {
	for _, d := range digests {
		if len(d) > maxDigest {
			return fmt.Errorf("a digest of %d bytes: the limit is %d", len(d), maxDigest)
		}
	}
	return nil
}

// checkMemory returns an error unless m is a valid TaskMemory for a task before its first
// job.
func checkMemory(m *statepb.TaskMemory) error {
	var b breach
	b.when(len(m.GetSamples()) > 0 || m.GetSampleCount() != 0, "memory: %d samples, %d waiting, before any job has run", m.GetSampleCount(), len(m.GetSamples()))
	b.when(m.GetSaved(), "memory: saved in profile %q: nothing has been learned yet", m.GetProfile())
	if m.GetReserve() != nil {
		b.add(checkReserve(m.GetReserve()))
	}
	return cmp.Or(b.err, checkDigests(m.GetUserDigest(), m.GetProxyDigest()))
}

// checkLessons refuses a memory sample or a reserve that a job cannot have. Only completed jobs and
// jobs that were aborted for exceeding their memory have samples. Only the aborted ones get another
// reserve.
func checkLessons(j *statepb.FinishedJob, state lifecycle.JobState) *refusal {
	overdraft := state == lifecycle.JobAborted && j.GetAbortReason() == lifecycle.AbortResourceOverdraft.String()
	if sample := j.GetSample(); sample != nil {
		switch {
		case state != lifecycle.JobCompleted && !overdraft:
			return refuse(CodeInvalidCommand, "finish job %q: it has a memory sample, but is %s: only completed jobs and those aborted for %s have one",
				j.GetJobId(), state, lifecycle.AbortResourceOverdraft)
		case !amount(sample.GetUser()) || !amount(sample.GetProxy()):
			return refuse(CodeInvalidCommand, "finish job %q: memory sample %v, %v: must be finite and not negative", j.GetJobId(), sample.GetUser(), sample.GetProxy())
		}
	}
	if next := j.GetNextReserve(); next != nil {
		if !overdraft {
			return refuse(CodeInvalidCommand, "finish job %q: it gets a reserve of its own, but was not aborted for %s", j.GetJobId(), lifecycle.AbortResourceOverdraft)
		}
		if err := checkReserve(next.GetReserve()); err != nil {
			return refuse(CodeInvalidCommand, "finish job %q: %v", j.GetJobId(), err)
		}
	}
	return nil
}

// learn adds the memory sample and the next reserve of an ended job to its task. The parameter roomy
// is false if no more samples may be kept. edit has been called.
func learn(t *statepb.Task, cookie int32, j *statepb.FinishedJob, roomy bool) {
	if j.GetNextReserve() != nil {
		made(&t.Reserves)[cookie] = j.GetNextReserve()
	}
	if !roomy {
		j.Sample = nil
	}
	if j.GetSample() == nil {
		return
	}
	if t.Memory == nil {
		t.Memory = &statepb.TaskMemory{}
	}
	if len(t.Memory.GetSamples()) < maxSamples {
		t.Memory.Samples = append(t.Memory.GetSamples(), j.GetSample())
		t.Memory.SampleCount++
	}
}

// updateReserves stores what a controller derived from samples: digests that include the samples,
// and the reserve of the next jobs.
func (c memoryChange) updateReserves(what string, o *operation, m *commandpb.UpdateReserves) *refusal {
	named := make(map[string]bool, len(m.GetTasks()))
	for _, r := range m.GetTasks() {
		if named[r.GetTask()] {
			return refuse(CodeInvalidCommand, "%s: task %q comes twice", what, r.GetTask())
		}
		named[r.GetTask()] = true
		if refused := checkTaskReserve(what, o, r); refused != nil {
			return refused
		}
	}
	editJobs(c.State, o)
	for _, r := range m.GetTasks() {
		task := o.taskIndex[scheduling.TaskName(r.GetTask())]
		c.updateReserve(o, task, r)
		o.measureTask(task)
	}
	o.record.LastIndex = c.index
	c.tellDemand()
	return nil
}

func checkTaskReserve(what string, o *operation, r *commandpb.TaskReserve) *refusal {
	i, ok := o.taskIndex[scheduling.TaskName(r.GetTask())]
	if !ok {
		return refuse(CodeUnknownTask, "%s: the operation has no task %q", what, r.GetTask())
	}
	m := o.record.GetTasks()[i].GetMemory()
	absorbed := m.GetSampleCount() - int64(len(m.GetSamples()))
	switch {
	case r.GetSamples() < absorbed:
		return refuse(CodeStaleDigest, "%s: task %q: its digests have %d samples, but those in the state have %d: start from the state", what, r.GetTask(), r.GetSamples(), absorbed)
	case r.GetSamples() > m.GetSampleCount():
		return refuse(CodeInvalidCommand, "%s: task %q: its digests have %d samples, but there have been only %d", what, r.GetTask(), r.GetSamples(), m.GetSampleCount())
	}
	err := checkDigests(r.GetUserDigest(), r.GetProxyDigest())
	if err == nil && r.GetReserve() != nil {
		err = checkReserve(r.GetReserve())
	}
	if err != nil {
		return refuse(CodeInvalidCommand, "%s: task %q: %v", what, r.GetTask(), err)
	}
	return nil
}

// updateReserve applies a checked update to one task.
func (c memoryChange) updateReserve(o *operation, task int, r *commandpb.TaskReserve) {
	t := o.record.GetTasks()[task]
	if t.Memory == nil {
		t.Memory = &statepb.TaskMemory{}
	}
	m := t.Memory
	m.UserDigest, m.ProxyDigest = r.GetUserDigest(), r.GetProxyDigest()
	m.Samples = slices.Clone(m.GetSamples()[int64(len(m.GetSamples()))-(m.GetSampleCount()-r.GetSamples()):])
	if r.GetReserve() == nil || proto.Equal(r.GetReserve(), m.GetReserve()) {
		return
	}
	before := t.GetJobResources().GetMemory()
	m.Reserve = r.GetReserve()
	t.JobResources = t.ResourcesOf(r.GetReserve().Total())
	c.touch(o, task, 0)
	c.emit(ReserveMoved{
		ID: o.id(), Task: scheduling.TaskName(t.GetName()), From: before, To: r.GetReserve().Total(), Samples: r.GetSamples(),
	})
}

// verifyMemory checks the TaskMemory of a task, and that each pending cookie with a reserve of its
// own is in the group of that reserve.
func verifyMemory(spec *statepb.TaskSpec, t *statepb.Task, w *work) error {
	m, all := t.GetMemory(), cookiesOf(spec, t.GetCounters().GetTotal())
	if waiting := int64(len(m.GetSamples())); waiting > m.GetSampleCount() || waiting > maxSamples {
		return fmt.Errorf("%d memory samples wait, but %d have been counted", waiting, m.GetSampleCount())
	}
	if m.GetReserve() != nil {
		if err := checkReserve(m.GetReserve()); err != nil {
			return err
		}
	}
	// Cookies that are left in the map `waiting` at the end are in a group, but have no reserve of
	// their own.
	waiting := make(map[scheduling.Cookie]int64)
	for _, group := range w.pending.dedicated {
		if group.memory <= 0 || group.cookies.Len() == 0 {
			return fmt.Errorf("pending cookies that need %d bytes: the group has %d cookies", group.memory, group.cookies.Len())
		}
		for cookie := range group.cookies.All() {
			waiting[cookie] = group.memory
		}
	}
	for number, own := range t.GetReserves() {
		cookie, group := scheduling.Cookie(number), waiting[scheduling.Cookie(number)]
		again := w.gang.exists() || !w.completed.Contains(cookie) && !w.givenUp.Contains(cookie)
		waits := group != 0 || w.pending.learned.Contains(cookie)
		delete(waiting, cookie)
		if !all.Contains(cookie) || !again {
			return fmt.Errorf("cookie %d has a reserve of its own, but does not run again", cookie)
		}
		if err := checkReserve(own.GetReserve()); err != nil {
			return fmt.Errorf("cookie %d: %w", cookie, err)
		}
		if waits && groupOf(t, cookie) != group {
			return fmt.Errorf("cookie %d waits in group %d, but its reserve is %d", cookie, group, groupOf(t, cookie))
		}
	}
	for cookie, group := range waiting {
		return fmt.Errorf("cookie %d waits in group %d without a reserve of its own", cookie, group)
	}
	return nil
}
