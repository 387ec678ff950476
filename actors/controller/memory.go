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
	// Memory has the digests, and the samples that they do not include yet.
	Memory *statepb.TaskMemory
	// Limit is the memory_limit of the task, which the samples are relative to.
	Limit int64
}

// Samples returns the number of samples; 0 for nil.
func (l *Learning) Samples() int64 {
	if l == nil {
		return 0
	}
	return l.Memory.GetSampleCount()
}

// digests returns the digests with all samples.
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

// Expect returns the memory state of a task before its first job, including its reserve. `key` is
// that of its profile, empty if it has none. `profile`
// is the memory profile that earlier operations have saved; `learning` is what an operation in
// progress has learned. Either may be nil. If the data is unreadable, Expect returns an error, and
// a state without that data.
func Expect(spec *statepb.OperationSpec, task *statepb.TaskSpec, key string, profile *statepb.MemoryProfile, learning *Learning) (*statepb.TaskMemory, error) {
	user, proxy, err := expected(task, profile, learning)
	if err != nil {
		err = fmt.Errorf("memory profile %s: %w", key, err)
		user, proxy = new(memory.Digest), new(memory.Digest)
	}
	m := &statepb.TaskMemory{Profile: key, FromProfile: !user.Empty()}
	if m.GetFromProfile() {
		m.UserDigest, m.ProxyDigest = user.Encode(), proxy.Encode()
	}
	m.Reserve = statepb.NewJobReserve(spec.MemoryTask(task).Reserve(user, proxy))
	return m, err
}

// expected returns digests from a profile, blended with what an operation in progress has learned
// since.
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

// rescaled converts digests that are relative to one memory_limit so that they are relative to
// another. The tasks of a profile need the same number of bytes, whatever their limit.
func rescaled(user, proxy *memory.Digest, from, limit int64) (scaledUser, scaledProxy *memory.Digest) {
	scale := 1.0
	if from > 0 && limit > 0 {
		scale = float64(from) / float64(limit)
	}
	return user.Scaled(scale, memory.UserUpperBound), proxy.Scaled(1, math.MaxFloat64)
}

// usage returns the peak memory of a job and its proxy. It includes tmpfs, which counts against
// memory_limit and on the node; the statistic UserMaxMemory does not.
func usage(job *statepb.FinishedJob) memory.Usage {
	s := job.GetStatistics()
	return memory.Usage{User: max(s.GetMaxMemory(), s.Value(statistics.UserMaxMemory)), Proxy: s.Value(statistics.ProxyMaxMemory)}
}

// teach adds to the record of a job its memory sample and, after an overdraft, the reserve with
// which the job runs again. Only jobs that completed, or were aborted for overdraft, have a sample.
// `before` is the cookie's own reserve so far, or nil; `learner` is the task's learner. The
// record's statistics must be complete.
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
	// A job that was never measured has no sample.
	if used.User <= 0 && over == nil {
		return
	}
	sample := learner.Task.Sample(used, over)
	job.Sample = &statepb.MemorySample{User: sample.User, Proxy: sample.Proxy}
}
