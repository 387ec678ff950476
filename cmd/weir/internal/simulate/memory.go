package simulate

import (
	"cmp"
	"time"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
	"weir/scheduling/resource"
)

// lessons learn the memory that an operation's jobs need, as its controller does.
type lessons struct {
	*memory.Learner
	// told is the reserve that the state has.
	told memory.Reserve
	// due says that a call of `telling` is already scheduled.
	due bool
}

// lesson returns the learner of an operation before its first job; nil if its jobs are granted
// what they ask for.
func (s *Shape) lesson(limit int64) *lessons {
	if s.Job.MemoryUsed == nil {
		return nil
	}
	l := &lessons{Learner: &memory.Learner{
		Task: memory.Task{Limit: limit, ProxyEstimate: memory.Streams{}.Estimate(), Options: memory.Default()}, User: new(memory.Digest), Proxy: new(memory.Digest),
	}}
	l.told = l.Reserve()
	return l
}

// uses is the memory that a job uses on its node, in bytes: all it holds, unless its operation
// says otherwise. A cookie uses the same in every attempt.
func (w *world) uses(op *operation, a *statepb.Allocation) int64 {
	if op.lessons == nil {
		return a.GetResources().GetMemory()
	}
	chance := w.draws(w.file.Seed^op.key^hash("memory"), uint64(a.GetCookie()))
	return min(int64(op.Job.MemoryUsed.Draw(chance)), op.lessons.Task.Limit)
}

// occupy changes the memory used on a job's node when the job starts or ends: `by` is 1 or -1.
func (w *world) occupy(op *operation, a *statepb.Allocation, by int64) {
	used := by * w.uses(op, a)
	w.occupied[a.GetNode()] += used
	if op.lessons != nil {
		w.meter.memory.add(w.now, [3]int64{by * op.lessons.Task.Limit, by * a.GetResources().GetMemory(), used})
	}
	if by > 0 && w.overfull(a.GetNode()) {
		node := a.GetNode()
		w.queue.add(w.now, func() error { return w.overdraft(node) })
	}
}

func (w *world) overfull(node string) bool {
	record, _ := w.state.Node(scheduling.NodeID(node))
	return w.occupied[node] > record.GetResources().GetMemory()
}

// overdraft handles a node whose jobs use more memory than it has. Jobs that use more than
// their reserve are aborted: the largest excess first, then the latest started (J.2).
func (w *world) overdraft(node string) error {
	for !w.dead[node] && w.overfull(node) {
		a := w.guilty(node)
		if a == nil {
			return nil
		}
		finished := &statepb.FinishedJob{JobId: a.GetJobId(), Node: node, State: lifecycle.JobAborted.String(), AbortReason: lifecycle.AbortResourceOverdraft.String()}
		if err := w.finish(a, finished); err != nil {
			return err
		}
		w.meter.memory.overdrafts++
	}
	return nil
}

// guilty returns the job of a node to abort first; nil if none exceeds its reserve.
func (w *world) guilty(node string) *statepb.Allocation {
	var first *statepb.Allocation
	most := int64(0)
	for _, a := range w.state.AllocationsOfNode(scheduling.NodeID(node)) {
		op := w.operations[a.GetOperationId()]
		if op.lessons == nil {
			continue
		}
		excess := w.uses(op, a) - a.GetReserve().GetUser()
		later := func() bool {
			return cmp.Or(a.GetStartTime().AsTime().Compare(first.GetStartTime().AsTime()), cmp.Compare(a.GetJobId(), first.GetJobId())) > 0
		}
		if excess > most || excess > 0 && excess == most && later() {
			first, most = a, excess
		}
	}
	return first
}

// teach adds a job's memory sample to the record of its end. After an overdraft it adds the reserve
// of the next attempt too.
func (w *world) teach(op *operation, a *statepb.Allocation, finished *statepb.FinishedJob) {
	overdrawn := finished.GetAbortReason() == lifecycle.AbortResourceOverdraft.String()
	if op.lessons == nil || finished.GetState() != lifecycle.JobCompleted.String() && !overdrawn {
		return
	}
	used := memory.Usage{User: w.uses(op, a)}
	var over *memory.Reserve
	if overdrawn {
		had := a.GetReserve().Reserve()
		over = &had
		record, _ := w.state.Operation(scheduling.OperationID(a.GetOperationId()))
		before := record.GetTasks()[0].GetReserves()[a.GetCookie()]
		next, count := op.lessons.Task.Rerun(op.lessons.User, op.lessons.Proxy, used, had, memory.Overdrafts{User: before.GetUserOverdrafts(), Proxy: before.GetProxyOverdrafts()})
		finished.NextReserve = &statepb.CookieReserve{Reserve: statepb.NewJobReserve(next), UserOverdrafts: count.User, ProxyOverdrafts: count.Proxy}
		finished.NextReserve.Reserve.Predecessor = a.GetJobId()
	}
	sample := op.lessons.Task.Sample(used, over)
	finished.Sample = &statepb.MemorySample{User: sample.User, Proxy: sample.Proxy}
}

// learn absorbs the sample of a job that has ended, and proposes a new reserve if one is due.
func (w *world) learn(op *operation, sample *statepb.MemorySample) error {
	record, _ := w.state.Operation(scheduling.OperationID(op.ID))
	known := record.GetTasks()[0].GetMemory()
	if sample == nil || known.GetSampleCount() == op.lessons.Absorbed {
		return nil
	}
	if err := op.lessons.Absorb(memory.Sample{User: sample.GetUser(), Proxy: sample.GetProxy()}); err != nil {
		return err
	}
	return w.tell(op)
}

// tell proposes the reserve of an operation's next jobs, once it is due.
func (w *world) tell(op *operation) error {
	record, _ := w.state.Operation(scheduling.OperationID(op.ID))
	if record.GetState() != lifecycle.Running.String() {
		return nil
	}
	l := op.lessons
	reserve, tell, after := l.Learn(w.time(), l.told, int64(len(record.GetTasks()[0].GetMemory().GetSamples())))
	if !tell {
		if after > 0 && !l.due {
			l.due = true
			w.queue.add(w.now+max(after, time.Millisecond), func() error { return w.telling(op.ID) })
		}
		return nil
	}
	l.told, op.perJob.Memory = reserve, reserve.Total()
	return w.do(&commandpb.UpdateReserves{OperationId: op.ID, Epoch: record.GetAssignment().GetEpoch(), Tasks: []*commandpb.TaskReserve{{
		Task: task, Samples: l.Absorbed, UserDigest: l.User.Encode(), ProxyDigest: l.Proxy.Encode(), Reserve: statepb.NewJobReserve(reserve),
	}}})
}

// telling calls `tell` at a time scheduled earlier.
func (w *world) telling(id string) error {
	op := w.operations[id]
	if op == nil {
		return nil
	}
	op.lessons.due = false
	return w.tell(op)
}

// memoryMeter adds up, over time, the memory of running jobs whose reserve is learned, in bytes
// x seconds.
type memoryMeter struct {
	at               time.Duration
	held             [3]int64
	sums             [3]float64
	jobs, overdrafts int64
}

// add adds the limit, reserve and use of a job; all three are negative for a job that has
// ended.
func (m *memoryMeter) add(now time.Duration, of [3]int64) {
	for i := range m.held {
		m.sums[i] += float64(m.held[i]) * (now - m.at).Seconds()
		m.held[i] += of[i]
	}
	if m.at = now; of[0] > 0 {
		m.jobs++
	}
}

// Memory is the memory of jobs whose reserve is learned, in bytes, averaged over the
// simulation.
type Memory struct {
	// Limit is the most that the jobs may use, Reserved is what was reserved for them, and Used is
	// what they used.
	Limit, Reserved, Used float64
	// Jobs is the number of starts. Overdrafts counts the jobs aborted because they exceeded
	// their reserve on a node without free memory.
	Jobs, Overdrafts int64
}

func (m *memoryMeter) result(now time.Duration) *Memory {
	if m.jobs == 0 {
		return nil
	}
	m.add(now, [3]int64{})
	d := max(now.Seconds(), 1e-9)
	return &Memory{Limit: m.sums[0] / d, Reserved: m.sums[1] / d, Used: m.sums[2] / d, Jobs: m.jobs, Overdrafts: m.overdrafts}
}

// demand is the latest number of pending jobs of a group.
type demand struct {
	group, pending int64
	amounts        resource.Amounts
}
