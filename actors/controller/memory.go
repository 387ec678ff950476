package controller

import (
	"fmt"
	"math"

	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
	"weir/scheduling/statistics"
)

// Learning is what an operation in progress has learned for a memory profile.
type Learning struct {
	// Memory has its digests, and the samples that are not in them yet.
	Memory *statepb.TaskMemory
	// Limit is memory_limit of the task: shares are those of this.
	Limit int64
}

// Samples returns how many jobs have taught it; 0 of nil.
func (l *Learning) Samples() int64 {
	if l == nil {
		return 0
	}
	return l.Memory.GetSampleCount()
}

// digests returns what has been learned.
func (l *Learning) digests() (user, proxy *memory.Digest, err error) {
	if user, err = memory.Decode(l.Memory.GetUserDigest()); err != nil {
		return nil, nil, err
	}
	if proxy, err = memory.Decode(l.Memory.GetProxyDigest()); err != nil {
		return nil, nil, err
	}
	for _, s := range l.Memory.GetSamples() {
		if err := memory.Absorb(user, proxy, memory.Sample{User: s.GetUser(), Proxy: s.GetProxy()}); err != nil {
			return nil, nil, err
		}
	}
	return user, proxy, nil
}

// Expect returns what is known of the memory of a task before its first job, and the reserve
// that follows: from the memory profile that earlier operations have left, and from one in
// progress. Either may be nil. What cannot be read is an error, and the task begins as if there
// were none.
func Expect(spec *statepb.OperationSpec, task *statepb.TaskSpec, profile *statepb.MemoryProfile, learning *Learning) (*statepb.TaskMemory, error) {
	user, proxy, err := expected(task, profile, learning)
	if err != nil {
		err = fmt.Errorf("memory profile %s: %w", spec.MemoryProfileKey(task), err)
		user, proxy = new(memory.Digest), new(memory.Digest)
	}
	m := &statepb.TaskMemory{Profile: spec.MemoryProfileKey(task), FromProfile: !user.Empty()}
	if m.GetFromProfile() {
		m.UserDigest, m.ProxyDigest = user.Encode(), proxy.Encode()
	}
	m.Reserve = statepb.NewJobReserve(spec.MemoryTask(task).Reserve(user, proxy))
	return m, err
}

// expected returns digests that begin with what a profile has, and with what an operation in
// progress has learned since.
func expected(task *statepb.TaskSpec, profile *statepb.MemoryProfile, learning *Learning) (user, proxy *memory.Digest, err error) {
	user, proxy, err = scaled(profile, task.GetMemoryLimit())
	if err != nil {
		return nil, nil, err
	}
	if learning != nil {
		newUser, newProxy, err := learning.digests()
		if err != nil {
			return nil, nil, err
		}
		newUser, newProxy = rescaled(newUser, newProxy, learning.Limit, task.GetMemoryLimit())
		user, proxy = memory.Blend(user, newUser), memory.Blend(proxy, newProxy)
	}
	return memory.FromPrior(user), memory.FromPrior(proxy), nil
}

// scaled returns the digests of a profile for a task of this memory_limit.
func scaled(from *statepb.MemoryProfile, limit int64) (user, proxy *memory.Digest, err error) {
	if user, err = memory.Decode(from.GetUserDigest()); err != nil {
		return nil, nil, err
	}
	if proxy, err = memory.Decode(from.GetProxyDigest()); err != nil {
		return nil, nil, err
	}
	user, proxy = rescaled(user, proxy, from.GetMemoryLimit(), limit)
	return user, proxy, nil
}

// rescaled returns digests of shares of one memory_limit as those of another: what tasks of one
// profile have in common is the bytes.
func rescaled(user, proxy *memory.Digest, from, limit int64) (scaledUser, scaledProxy *memory.Digest) {
	scale := 1.0
	if from > 0 && limit > 0 {
		scale = float64(from) / float64(limit)
	}
	return user.Scaled(scale, memory.UserUpperBound), proxy.Scaled(1, math.MaxFloat64)
}

// usage returns the most memory that a job and its proxy have used. What counts against
// memory_limit, and on the node, is with tmpfs; the statistic by its name is without.
func usage(job *statepb.FinishedJob) memory.Usage {
	s := job.GetStatistics()
	return memory.Usage{User: max(s.GetMaxMemory(), s.Value(statistics.UserMaxMemory)), Proxy: s.Value(statistics.ProxyMaxMemory)}
}

// teach adds to the record of a job what it teaches about memory, and with an overdraft the
// reserve with which it runs again. Only jobs that completed teach, and those that were
// aborted for overdraft. before is the reserve of its own that the job's cookie had; learner
// knows what has been learned of the task. The record has its statistics.
func teach(job *statepb.FinishedJob, learner *memory.Learner, before *statepb.CookieReserve) {
	job.Sample, job.NextReserve = nil, nil
	overdraft := job.GetState() == lifecycle.JobAborted.String() && job.GetAbortReason() == lifecycle.AbortResourceOverdraft.String()
	if !overdraft && job.GetState() != lifecycle.JobCompleted.String() {
		return
	}
	used := usage(job)
	var over *memory.Reserve
	if overdraft {
		had := job.GetReserve().Reserve()
		over = &had
		next, count := learner.Task.Rerun(learner.User, learner.Proxy, used, had,
			memory.Overdrafts{User: before.GetUserOverdrafts(), Proxy: before.GetProxyOverdrafts()})
		job.NextReserve = &statepb.CookieReserve{Reserve: statepb.NewJobReserve(next), UserOverdrafts: count.User, ProxyOverdrafts: count.Proxy}
		job.NextReserve.Reserve.Predecessor = job.GetJobId()
	}
	// A job that was never measured teaches nothing.
	if used.User <= 0 && over == nil {
		return
	}
	sample := learner.Task.Sample(used, over)
	job.Sample = &statepb.MemorySample{User: sample.User, Proxy: sample.Proxy}
}
