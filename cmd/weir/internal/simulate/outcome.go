package simulate

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Settle is the time after a pool's first demand from which its usage is compared with its fair
// share.
const Settle = 15 * time.Minute

// Outcome is how far a pool got what it was promised. Shares are of the pool's dominant
// resource, relative to the cluster as the leader knows it at the time.
type Outcome struct {
	// Leaf pools have no pools below them.
	Leaf bool
	// Window is the time from Settle after the first demand to the end. Fair is the mean fair
	// share in the window. Got is the mean usage share in it, jobs that were ordered to stop
	// included.
	Window    time.Duration
	Fair, Got float64
	// Hungry says that demand exceeded the fair share at every update of the window.
	Hungry bool
	// LargestJob is the share of the pool's largest job at the time when the cluster was
	// smallest.
	LargestJob float64
	// Asked is the part of its guarantees that the pool wanted for at least Patience without a
	// break or failure, and for which there was room beside the guarantees of others. It is
	// rounded down to whole jobs of the largest size. Had is how much of Asked the pool got.
	// Both are shares x seconds.
	Asked, Had float64
	// Patience is how long the pool may have to wait for preemption to make room.
	Patience time.Duration
	// FirstWait is the time until the first job or, without a job, until the end. It counts from
	// the first demand or, if a node or leader failed after that, from the last failure.
	// FairMeanwhile is the mean fair share from the first demand to the end of that wait.
	FirstWait     time.Duration
	FairMeanwhile float64
	// Preempted counts preempted jobs. Lost is the part of the pool's usage that was lost with
	// preempted jobs that did not leave by themselves. LostSeconds is the same in shares x seconds;
	// UsedSeconds is all usage.
	Preempted                int64
	Lost                     float64
	LostSeconds, UsedSeconds float64
	// OverLimits is the longest time for which usage exceeded resource_limits without a break.
	OverLimits time.Duration
	// OutOfOrder counts jobs of a FIFO pool that started while an earlier operation had a
	// pending job that would have fit in their place: it needs no more of any resource than the
	// started job. Pools whose order may change are not counted.
	OutOfOrder int64
}

// Ratio is the part of its fair share that the pool got; false if its fair share was 0.
func (o Outcome) Ratio() (float64, bool) {
	if o.Fair <= resource.Epsilon {
		return 0, false
	}
	return o.Got / o.Fair, true
}

// outcome is an Outcome in the making.
type outcome struct {
	Outcome
	// wanted is the time of the first demand, or -1; calm is the time of the first demand or of the
	// last failure, whichever is later.
	wanted, calm time.Duration
	started      bool
	// fair and demand are the shares at the last update.
	fair, demand resource.Vector
	// fairSum and gotSum are shares x seconds in the window; fairMeanwhile is the fair share x
	// seconds before the first job.
	fairSum, gotSum resource.Vector
	fairMeanwhile   float64
	// job is the most that its jobs need of each resource.
	job   resource.Amounts
	asked lowest
	// less is the time at which demand fell below the promise, or -1.
	less   time.Duration
	lost   sums
	limits resource.Amounts
	// over is the time at which usage began to exceed the limits, or -1.
	over time.Duration
}

// interval accounts for the time since the last update, in which the mean usage share was
// `used`. `room` reports whether one more job would fit.
func (o *outcome) interval(since, now time.Duration, used resource.Vector, promised float64, room func() bool) {
	d := (now - since).Seconds()
	if o.wanted < 0 {
		return
	}
	if !o.started {
		o.fairMeanwhile += o.fair.MaxComponent() * d
	}
	if settled := now - max(since, o.wanted+Settle); settled > 0 {
		if o.Window == 0 {
			o.Hungry = true
		}
		o.Window += settled
		o.fairSum, o.gotSum = o.fairSum.Add(o.fair.Scale(settled.Seconds())), o.gotSum.Add(used.Scale(settled.Seconds()))
		k := o.fair.MaxKind(resource.CPU)
		o.Hungry = o.Hungry && o.demand[k] > o.fair[k]+resource.LargeEpsilon
	}
	o.breaks(now, o.less >= 0)
	if owed := wholeJobs(o.asked.since(since, now, promised, o.Patience), o.LargestJob); owed > 0 {
		had := min(used.MaxComponent(), owed)
		if had < owed-resource.LargeEpsilon && !room() {
			owed = had
		}
		o.Asked += owed * d
		o.Had += had * d
	}
}

// wholeJobs rounds a share down to a whole number of jobs of this size.
func wholeJobs(share, job float64) float64 {
	if job <= 0 {
		return share
	}
	return float64(int(share/job+resource.LargeEpsilon)) * job
}

// wants notes the current demand, and whether it is less than the promise.
func (o *outcome) wants(now time.Duration, demand resource.Amounts, less bool) {
	if o.wanted < 0 && !demand.IsZero() {
		o.wanted, o.calm = now, now
	}
	o.breaks(now, less)
}

// breaks notes whether the pool wants less than it was promised. When it stops wanting less, the
// wait for its guarantees starts over.
func (o *outcome) breaks(now time.Duration, less bool) {
	if o.less >= 0 && now > o.less {
		o.asked = lowest{}
	}
	switch {
	case !less:
		o.less = -1
	case o.less < 0:
		o.less = now
	}
}

// begins notes the first start of a job, or the end of the run without one: the first wait is
// over.
func (o *outcome) begins(now time.Duration) {
	waited := !o.started && o.wanted >= 0
	o.started = true
	if !waited {
		return
	}
	o.FirstWait = now - o.calm
	if d := (now - o.wanted).Seconds(); d > 0 {
		o.FairMeanwhile = o.fairMeanwhile / d
	}
}

// uses notes the current usage.
func (o *outcome) uses(now time.Duration, usage resource.Amounts) {
	switch within := usage.Fits(o.limits); {
	case within && o.over >= 0:
		o.OverLimits = max(o.OverLimits, now-o.over)
		o.over = -1
	case !within && o.over < 0:
		o.over = now
	}
}

// close returns the finished outcome.
func (o *outcome) close(now time.Duration, used sums, total resource.Amounts) Outcome {
	o.begins(now)
	if o.over >= 0 {
		o.OverLimits = max(o.OverLimits, now-o.over)
	}
	if o.Window > 0 {
		k := o.fairSum.MaxKind(resource.CPU)
		o.Fair, o.Got = o.fairSum[k]/o.Window.Seconds(), o.gotSum[k]/o.Window.Seconds()
	}
	for k := range resource.Kind(resource.Count) {
		t := float64(total.Of(k))
		if t == 0 {
			continue
		}
		o.LostSeconds, o.UsedSeconds = max(o.LostSeconds, o.lost[k]/t), max(o.UsedSeconds, used[k]/t)
		if used[k] > 0 {
			o.Lost = max(o.Lost, o.lost[k]/used[k])
		}
	}
	return o.Outcome
}

// lowest finds the minimum of a share over a sliding time window.
type lowest struct {
	begun time.Duration
	kept  []promise
}

// promise is a share and the end of its interval; both increase along lowest.kept.
type promise struct {
	until time.Duration
	share float64
}

// since adds the share of an interval. It returns the least share over the interval and the time
// `d` before it; 0 if the record does not reach back that far.
func (l *lowest) since(since, now time.Duration, share float64, d time.Duration) float64 {
	if len(l.kept) == 0 {
		l.begun = since
	}
	for len(l.kept) > 0 && l.kept[len(l.kept)-1].share >= share {
		l.kept = l.kept[:len(l.kept)-1]
	}
	l.kept = append(l.kept, promise{now, share})
	for l.kept[0].until <= since-d {
		l.kept = l.kept[1:]
	}
	if l.begun > since-d {
		return 0
	}
	return l.kept[0].share
}

// fifoStart is a job of a FIFO pool that has just started.
type fifoStart struct {
	op    *operation
	job   string
	holds resource.Amounts
}

// unclaimed drops the starts that fulfil claims: their turn was when the claim was made.
func unclaimed(starts []fifoStart, command proto.Message) []fifoStart {
	met := map[string]bool{}
	start, _ := command.(*commandpb.StartAllocations)
	for _, g := range start.GetGrants() {
		met[g.GetJobId()] = g.GetClaimTime() != nil
	}
	return slices.DeleteFunc(starts, func(s fifoStart) bool { return met[s.job] })
}

// inOrder counts jobs of FIFO pools that the plan started ahead of a pending job of an earlier
// operation. Pending jobs with a claim do not count, nor do operations accepted after the last
// fair share update: such operations have no place in the order yet.
func (w *world) inOrder(claimed map[string]int64) {
	for _, s := range w.fifoStarts {
		for _, other := range w.operations {
			if other.pool == s.op.pool && other.accepted <= w.updated && !other.graceful() && other.before(s.op) && other.waitsFor(s.holds, claimed[other.ID]) {
				s.op.pool.outcome.OutOfOrder++
				break
			}
		}
	}
	w.fifoStarts = w.fifoStarts[:0]
}

// before reports whether a FIFO pool serves `op` before `other`: it compares their sort keys,
// then their start times and ids.
func (op *operation) before(other *operation) bool {
	for _, key := range op.pool.fifo {
		if key == pooltree.SortByStartTime && op.accepted != other.accepted {
			break
		}
		if key == pooltree.SortByWeight && op.weight() != other.weight() {
			return op.weight() > other.weight()
		}
	}
	return cmp.Or(cmp.Compare(op.accepted, other.accepted), cmp.Compare(op.ID, other.ID)) < 0
}

// graceful reports whether the operation is preempted gracefully: such an operation starts only
// jobs that it may keep.
func (op *operation) graceful() bool {
	mode := op.settings().PreemptionMode
	return mode != nil && *mode == pooltree.PreemptGracefully
}

func (op *operation) weight() float64 {
	if weight := op.settings().Weight; weight != nil {
		return *weight
	}
	return pooltree.DefaultWeight
}

// waitsFor reports whether a job of op fits in `room`, and op has more than `besides` pending jobs.
func (op *operation) waitsFor(room resource.Amounts, besides int64) bool {
	for _, d := range op.demand {
		besides -= d.pending
	}
	return besides < 0 && op.perJob.Fits(room)
}

// claimed returns the number of claims by operation.
func (w *world) claimed() map[string]int64 {
	all := map[string]int64{}
	for _, c := range w.state.Claims(scheduling.DefaultTree) {
		all[c.GetBeneficiary().GetOperationId()]++
	}
	return all
}

// lose notes that the work of a job is lost.
func (o *outcome) lose(now time.Duration, a *statepb.Allocation) {
	o.lost.add(a.GetResources().Amounts(), now.Seconds()-a.GetStartTime().AsTime().Sub(epoch).Seconds())
}

// calmed notes that a node or the leader has failed: waits for a first job count from now, and
// the time for which guarantees must be wanted starts over.
func (m *meter) calmed(now time.Duration) {
	for _, a := range m.ordered {
		a.outcome.asked = lowest{}
		if a.outcome.wanted >= 0 && !a.outcome.started {
			a.outcome.calm = now
		}
	}
}

// sized notes the size of the pool's jobs, and of the cluster at present.
func (o *outcome) sized(perJob, present resource.Amounts) {
	o.job = o.job.Max(perJob)
	o.LargestJob = max(o.LargestJob, resource.MaxRatio(o.job, present))
}
