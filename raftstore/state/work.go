package state

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/cookies"
	"weir/scheduling/lifecycle"
	"weir/scheduling/statistics"
)

// work is the pending and completed work of a task. Readers of an operation's record
// rarely need it, so it is kept beside the record. A cookie that is in none of the sets
// is running.
type work struct {
	pending   queue
	completed cookies.IntervalSet
	// givenUp are the cookies that have used up their attempts.
	givenUp cookies.IntervalSet
	// failed are pending cookies of an ended operation that had a failed attempt.
	failed cookies.IntervalSet
	gang   gang
	// slices holds the input of each cookie. It is nil for completed cookies.
	slices []*statepb.Slices
	// parts are the input and output of completed cookies. The list only grows at the
	// end, so clones share it.
	parts      []*statepb.CompletedPart
	statistics statistics.Sums
	// read is what slices, parts and the skipped records of the task take, besides readerBytes for
	// each cookie.
	read int64
	// weight is what the task is counted with, in bytes.
	weight int64
}

func (w *work) clone() work {
	return work{
		pending: w.pending.clone(), completed: w.completed.Clone(), givenUp: w.givenUp.Clone(), failed: w.failed.Clone(), gang: w.gang.clone(),
		slices: slices.Clone(w.slices), parts: w.parts, statistics: w.statistics.Clone(), read: w.read, weight: w.weight,
	}
}

// full returns a copy of a task's record with its work filled in, as in a snapshot.
func (w *work) full(t *statepb.Task) *statepb.Task {
	t = shallow(t)
	pending := w.pending.all()
	t.Pending, t.Completed = intervalRecords(&pending), intervalRecords(&w.completed)
	t.GivenUp, t.Failed = intervalRecords(&w.givenUp), intervalRecords(&w.failed)
	t.Parts, t.Statistics = w.parts, aggregateRecords(w.statistics.Set)
	for cookie, s := range w.slices {
		if s != nil {
			made(&t.Slices)[int32(cookie)] = s
		}
	}
	return t
}

// forget drops the inputs, outputs, reserves and attempt counts of a task's cookies after its
// operation has ended. It keeps the sets of cookies, and adds the set of those that have failed.
func (w *work) forget(t *statepb.Task) {
	w.pending = queue{learned: w.pending.all()}
	w.slices, w.parts = nil, nil
	w.read = w.readBytes(t)
	for cookie := range sorted(t.GetFailures()) {
		w.failed.Add(scheduling.Cookie(cookie))
	}
	t.Attempts, t.Reserves, t.Failures = nil, nil, nil
}

// offered returns how many jobs of a group of a task may be granted. A gang restarts only
// after its previous jobs have ended.
func (v *version) offered(task int, group int64) int64 {
	w := &v.tasks[task]
	if w.gang.stale > 0 || w.gang.done() {
		return 0
	}
	return w.pending.len(group)
}

// reserveOf returns the memory reserve for the next attempt of a cookie; nil if it has none.
func reserveOf(t *statepb.Task, c scheduling.Cookie) *statepb.JobReserve {
	if own := t.GetReserves()[int32(c)]; own != nil {
		return own.GetReserve()
	}
	return t.GetMemory().GetReserve()
}

// groupOf returns the group that a cookie belongs to while it is pending.
func groupOf(t *statepb.Task, c scheduling.Cookie) int64 {
	return t.GetReserves()[int32(c)].GetReserve().Total()
}

// addMeasured adds the statistics of a job whose end has been checked. The parameter roomy is false
// if the statistics must not grow.
func (w *work) addMeasured(j *statepb.FinishedJob, roomy bool) {
	measured, add := j.GetStatistics(), w.statistics.Add
	if !roomy {
		add = w.statistics.AddWithoutRoom
	}
	if err := add(j.GetState(), measured.GetPacked(), measured.GetValues()); err != nil {
		panic(fmt.Sprintf("add statistics of job %q: %v", j.GetJobId(), err))
	}
}

func aggregateRecords(set statistics.Set) []*statepb.Aggregate {
	records := make([]*statepb.Aggregate, len(set))
	for i, e := range set {
		records[i] = &statepb.Aggregate{
			Name: e.Name, State: e.State, Count: e.Count, Sum: e.Sum, Min: e.Min, Max: e.Max, Buckets: e.Buckets, Counts: e.Counts,
		}
	}
	return records
}

func restoredStatistics(records []*statepb.Aggregate) statistics.Sums {
	var set statistics.Set
	for _, r := range records {
		set = append(set, statistics.Entry{Name: r.GetName(), State: r.GetState(), Aggregate: statistics.Aggregate{
			Count: r.GetCount(), Sum: r.GetSum(), Min: r.GetMin(), Max: r.GetMax(), Buckets: r.GetBuckets(), Counts: r.GetCounts(),
		}})
	}
	return statistics.NewSums(set)
}

// progress is what is kept of the progress of an operation, in bytes: of its tasks, and beside them.
type progress struct{ tasks, head int64 }

const (
	// taskBytes is the most that a task takes without its name, its cookies, and what they are
	// counted with below.
	taskBytes = 1 << 10
	// cookieBytes is the most that a cookie takes: it is an interval of its own in a set, its
	// attempts and its failures, or a rank of a gang, are counted, and it has a reserve of its own.
	cookieBytes = 160
	// readerBytes is the most that a cookie of a map operation takes besides its slices: what it has
	// written, in a part whose name is no longer than usualPart. Each slice takes sliceBytes.
	readerBytes, usualPart, sliceBytes = 88, 48, 28
	// intervalBytes, sampleBytes and abortBytes are the most that an interval of cookies takes, a
	// memory sample, and an abort reason with its count.
	intervalBytes, sampleBytes, abortBytes = 15, 24, 16
	// usualID is how long ids of operations and jobs are.
	usualID = 36
	// placeBytes is the most that an operation takes in a tree besides its options.
	placeBytes = 64
	// frameBytes is the most that stands around a record in a list or in a snapshot.
	frameBytes = 16
)

// measure finds out what is kept of the progress of an operation. The cookies of one that has not
// ended are counted with the most that they can come to take, because ends of jobs cannot be refused.
func (v *version) measure() {
	v.measureHead()
	v.progress.tasks = 0
	if len(v.tasks) == 0 && v.state.InProgress() {
		v.progress.tasks = plannedBytes(v.record.GetSpec())
	}
	for i := range v.tasks {
		v.tasks[i].weight = 0
		v.measureTask(i)
	}
}

// measureTask does this for what one task has changed.
func (v *version) measureTask(i int) {
	t, w := v.record.GetTasks()[i], &v.tasks[i]
	memory := t.GetMemory()
	size := int64(taskBytes+len(t.GetName())+len(memory.GetUserDigest())+len(memory.GetProxyDigest())+len(memory.GetProfile())+
		sampleBytes*len(memory.GetSamples())+len(t.GetGang().GetReason())) + w.statistics.Bytes() + w.read
	for reason := range t.GetCounters().GetAbortedByReason() {
		size += int64(abortBytes + len(reason))
	}
	if v.state.InProgress() {
		size += t.GetCounters().GetTotal() * v.cookieBytes()
	} else {
		size += intervalBytes * int64(len(t.GetGang().GetCompleted()))
		for _, set := range []*cookies.IntervalSet{&w.pending.learned, &w.completed, &w.givenUp, &w.failed} {
			size += intervalBytes * int64(len(set.Intervals()))
		}
	}
	v.progress.tasks += size - w.weight
	w.weight = size
}

// cookieBytes returns what each cookie is counted with.
func (v *version) cookieBytes() int64 {
	if v.reads() {
		return cookieBytes + readerBytes
	}
	return cookieBytes
}

// measureHead does what measure does for what is not of one task.
func (v *version) measureHead() {
	r := v.record
	v.progress.head = int64(proto.Size(&statepb.Operation{
		User: r.GetUser(), MutationId: r.GetMutationId(), Assignment: r.GetAssignment(), Trees: r.GetTrees(), Result: r.GetResult(),
		PendingReason: r.GetPendingReason(), HeldBack: r.GetHeldBack(), GivenUpError: r.GetGivenUpError(), Output: r.GetOutput(),
		Stop: r.GetStop(), Waste: r.GetWaste(), PreemptedOthers: r.GetPreemptedOthers(),
	}))
}

// plannedBytes returns what the tasks of a specification are counted with before they are defined.
// What a map operation reads is not known before.
func plannedBytes(spec *statepb.OperationSpec) (size int64) {
	for _, t := range spec.GetTasks() {
		size += int64(taskBytes + len(t.GetName()))
		if spec.GetType() != lifecycle.Map {
			all := cookiesOf(t, int64(t.GetJobCount()))
			size += cookieBytes * all.Len()
		}
	}
	return size
}

// readingBytes returns what the cookies of a map operation are counted with.
func readingBytes(defined []*commandpb.TaskDefinition) (size int64) {
	for _, d := range defined {
		size += (cookieBytes + readerBytes) * int64(len(d.GetSlices()))
		for _, s := range d.GetSlices() {
			size += sliceBytes * int64(len(s.GetSlices()))
		}
	}
	return size
}

// readBytes returns what the field read of a task should be.
func (w *work) readBytes(t *statepb.Task) (size int64) {
	for _, s := range w.slices {
		size += sliceBytes * int64(len(s.GetSlices()))
	}
	for _, p := range w.parts {
		size += partBytes(p)
	}
	for _, r := range t.GetSkipped() {
		size += skippedBytes(r)
	}
	return size
}

func partBytes(p *statepb.CompletedPart) int64 {
	return int64(sliceBytes*len(p.GetSlices()) + max(0, len(p.GetOutput().GetPart())-usualPart))
}

func skippedBytes(r *statepb.SkippedRecord) int64 { return int64(proto.Size(r) + frameBytes) }

// setSlices sets what a cookie reads, which may be a new one; nil: it has completed.
func (w *work) setSlices(cookie scheduling.Cookie, reads *statepb.Slices) {
	if int(cookie) == len(w.slices) {
		w.slices = append(w.slices, nil)
	}
	w.read += sliceBytes * int64(len(reads.GetSlices())-len(w.slices[cookie].GetSlices()))
	w.slices[cookie] = reads
}

// addPart adds the part of a cookie that has completed.
func (w *work) addPart(p *statepb.CompletedPart) {
	w.parts = append(w.parts, p)
	w.read += partBytes(p)
}

// allocate adds an allocation to those of the operation, or replaces what it had for the job.
func (o *operation) allocate(a *statepb.Allocation) {
	o.allocations[scheduling.JobID(a.GetJobId())] = a
	o.live += allocationBytes(a)
}

// allocationBytes returns what an allocation takes at most.
func allocationBytes(a *statepb.Allocation) int64 {
	const numbers, port = 224, 3
	return int64(numbers + len(a.GetJobId()) + len(a.GetOperationId()) + len(a.GetTask()) + len(a.GetNode()) + len(a.GetPool()) + port*len(a.GetPorts()) +
		reserveBytes(a.GetReserve()) + orderBytes(a.GetStop()))
}

// orderBytes returns what a stop order takes at most.
func orderBytes(order *statepb.StopOrder) int {
	const numbers, ofBeneficiary = 144, 96
	if order == nil {
		return 0
	}
	size := numbers + len(order.GetMessage())
	if b := order.GetPreemptedFor(); b != nil {
		size += ofBeneficiary + len(b.GetOperationId()) + len(b.GetTask())
	}
	return size
}

// reserveBytes returns what a reserve takes at most, with the overdrafts that it may follow.
func reserveBytes(r *statepb.JobReserve) int {
	const numbers = 80
	if r == nil {
		return 0
	}
	return numbers + len(r.GetPredecessor())
}
