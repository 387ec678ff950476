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

// Settle is how long after its first demand what a pool has is compared with its fair
// share for the first time.
const Settle = 15 * time.Minute

// Outcome is what became of what a pool was promised. Shares are parts of the cluster as
// the leader knows it at the time, of the pool's dominant resource.
type Outcome struct {
	// Leaf pools have no pools below them.
	Leaf bool
	// Window is the time from Settle after the first demand to the end. Fair is the fair
	// share in it on average, Got what the jobs held, those told to leave included.
	Window    time.Duration
	Fair, Got float64
	// Hungry says that demand exceeded the fair share at every update of the window.
	Hungry bool
	// LargestJob is the share of its largest job, of the fewest nodes that there were.
	LargestJob float64
	// Asked is the part of its guarantees, in whole largest jobs, that the pool wanted without
	// a break or failure for as long as Patience, and for which there was room beside the
	// guarantees of others; Had is how much of that it had. Both are shares x seconds.
	Asked, Had float64
	// Patience is how long the pool may wait for what preemption has to make room for.
	Patience time.Duration
	// FirstWait is from the first demand, or the last failure of a node or leader since, to the
	// first job, or to the end; FairMeanwhile is the fair share in that time on average.
	FirstWait     time.Duration
	FairMeanwhile float64
	// Preempted counts jobs that were told to leave for others. Lost is the part of all that the
	// pool used that was lost with those which did not leave by themselves; LostSeconds is
	// the same in shares x seconds, and UsedSeconds is all it used.
	Preempted                int64
	Lost                     float64
	LostSeconds, UsedSeconds float64
	// OverLimits is the longest time for which usage exceeded resource_limits without a break.
	OverLimits time.Duration
	// OutOfOrder counts jobs of a FIFO pool that started while an earlier operation had one
	// pending that needs no more of any resource. Pools with an order that changes are left out.
	OutOfOrder int64
}

// Ratio is what the pool got of its fair share; false: it had none.
func (o Outcome) Ratio() (float64, bool) {
	if o.Fair <= resource.Epsilon {
		return 0, false
	}
	return o.Got / o.Fair, true
}

// outcome is an Outcome on its way.
type outcome struct {
	Outcome
	// wanted is since when there was demand, or -1; calm is the later of that and the last failure.
	wanted, calm time.Duration
	started      bool
	// fair and demand are of the last update.
	fair, demand resource.Vector
	// fairSum and gotSum are shares x seconds in the window, fairMeanwhile before the first job.
	fairSum, gotSum resource.Vector
	fairMeanwhile   float64
	// job is the most that its jobs need of each resource.
	job   resource.Amounts
	asked lowest
	// less is since when it has wanted less than it was promised, or -1.
	less   time.Duration
	lost   sums
	limits resource.Amounts
	// over is since when usage exceeds limits, or -1.
	over time.Duration
}

// interval takes what was so since the last update: the mean share that was used; room says
// whether there is any for one more job.
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

// wholeJobs is how much of a share jobs of this size can use.
func wholeJobs(share, job float64) float64 {
	if job <= 0 {
		return share
	}
	return float64(int(share/job+resource.LargeEpsilon)) * job
}

// wants takes the demand of a moment, and whether that is less than what was promised.
func (o *outcome) wants(now time.Duration, demand resource.Amounts, less bool) {
	if o.wanted < 0 && !demand.IsZero() {
		o.wanted, o.calm = now, now
	}
	o.breaks(now, less)
}

// breaks takes it that the pool wants less than it was promised, or does not: what it wants after
// such a time is asked anew.
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

// begins takes the first start of a job, or the end without one, which ends the wait for it.
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

// uses takes the usage of a moment.
func (o *outcome) uses(now time.Duration, usage resource.Amounts) {
	switch within := usage.Fits(o.limits); {
	case within && o.over >= 0:
		o.OverLimits = max(o.OverLimits, now-o.over)
		o.over = -1
	case !within && o.over < 0:
		o.over = now
	}
}

// close returns the outcome at the end.
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

// lowest finds the least of a number over a time that has passed.
type lowest struct {
	begun time.Duration
	kept  []promise
}

// promise is a share until a time; those kept grow with time.
type promise struct {
	until time.Duration
	share float64
}

// since takes the share of an interval and returns the least in the time d before its end,
// 0 when there was none for so long.
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

// unclaimed drops the starts by which claims were met: their turn was when they claimed it.
func unclaimed(starts []fifoStart, command proto.Message) []fifoStart {
	met := map[string]bool{}
	start, _ := command.(*commandpb.StartAllocations)
	for _, g := range start.GetGrants() {
		met[g.GetJobId()] = g.GetClaimTime() != nil
	}
	return slices.DeleteFunc(starts, func(s fifoStart) bool { return met[s.job] })
}

// inOrder looks whether the jobs that a plan has started in FIFO pools passed over those of earlier
// operations, but for those for which room is claimed elsewhere, and those that have come since
// shares were updated: they have no place yet.
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

// before reports whether a FIFO pool serves op first: by what it sorts, and then by start and id.
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

// graceful operations start no more jobs than they may keep.
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

// waitsFor reports whether a pending job of op, besides so many, needs no more than this.
func (op *operation) waitsFor(room resource.Amounts, besides int64) bool {
	for _, d := range op.demand {
		besides -= d.pending
	}
	return besides < 0 && op.perJob.Fits(room)
}

// claimed is for how many jobs room is claimed, by operation.
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

// calmed says that a node or the leader has failed: waits for a first job are counted from now, and
// guarantees are to be kept when they have been asked for as long as that takes again.
func (m *meter) calmed(now time.Duration) {
	for _, a := range m.ordered {
		a.outcome.asked = lowest{}
		if a.outcome.wanted >= 0 && !a.outcome.started {
			a.outcome.calm = now
		}
	}
}

// sized takes what jobs of the pool need, and what there is.
func (o *outcome) sized(perJob, present resource.Amounts) {
	o.job = o.job.Max(perJob)
	o.LargestJob = max(o.LargestJob, resource.MaxRatio(o.job, present))
}
