package explain

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

const (
	// trials is how often the future is simulated for an estimate. The reported range is from the
	// second outcome to the last but one.
	trials = 21
	// groupsAtOnce is roughly how many groups of jobs run at the same time in a trial: in a large
	// cluster, several jobs start and end as one group.
	groupsAtOnce = 400
	// maxEnds is the maximum number of groups of jobs that end in a trial. maxChoices is the
	// maximum number of elements that are examined in all trials.
	maxEnds, maxChoices = 5000, 20_000_000
	// endsSoon is how many of the next ends are examined before those of large groups. For these, the
	// jobs that run are at most about groupsDrawn groups.
	endsSoon, groupsDrawn = 400, 20_000
	// maxWait is how far ahead starts are estimated.
	maxWait = 24 * time.Hour
	// startDelay is how long after its room is free a job may start, because of agents' reports,
	// updates and heartbeats.
	startDelay = time.Second
	// unlikeness is how much the run times of an operation differ from those of its pool: the
	// standard deviation of the logarithm.
	unlikeness = .5
	// margin is the fraction by which the reported range is wider than the simulated one, on each
	// side: the simulation does not know everything.
	margin = .5
	// leastRuns is how many operations of a pool must have ended to take them as examples of others.
	leastRuns = 3
)

// wish is what an operation waits for: that this many jobs start, each with these needs.
type wish struct {
	op    scheduling.OperationID
	jobs  int64
	needs resource.Amounts
	// k is the resource that is lacking.
	k resource.Kind
	// reach is the fraction of the nodes that its jobs may use.
	reach float64
	// fits reports whether any node could hold a job.
	fits func(resource.Amounts) bool
	now  time.Time
}

// foresight is when something is expected to happen, with the range, counted from now.
type foresight struct {
	in, earliest, latest time.Duration
}

// foresee estimates when ending jobs fulfil a wish, or says why that cannot be estimated. Equal
// contests give equal answers.
func (c *Contest) foresee(w wish) (foresight, string) {
	target := slices.IndexFunc(c.Contenders, func(n *Contender) bool { return n.ID == w.op })
	if target < 0 || c.Contenders[target].Place == math.MaxInt && !c.Contenders[target].Gang {
		return foresight{}, fmt.Sprintf("%d or more operations come before it in the order of scheduling", MaxPlaces)
	}
	if why := c.unforeseeable(w); why != "" {
		return foresight{}, why
	}
	f := newForecast(c, w, target)
	waits := f.outcomes()
	if waits[len(waits)/2] > maxWait.Seconds() {
		return foresight{}, f.never()
	}
	first, in, last := waits[1], waits[len(waits)/2], waits[len(waits)-2]
	return foresight{
		in: seconds(in), earliest: max(seconds(first-margin*(in-first))-startDelay, 0), latest: seconds(min(last+margin*(last-in), maxWait.Seconds())) + startDelay,
	}, ""
}

// outcomes returns the outcomes of the trials in ascending order. Where jobs end in groups, the first
// of the next ends is much sooner than that of the first group, so trials of the next ends come
// first. Groups tell the outcomes beyond those.
func (f *forecast) outcomes() []float64 {
	if f.group == 1 {
		return f.waits()
	}
	group := f.group
	f.group, f.near = max(1, group*groupsAtOnce/groupsDrawn), true
	soon := f.waits()
	f.group, f.near, f.overran = group, false, false
	met := sort.Search(len(soon), func(i int) bool { return math.IsInf(soon[i], 1) })
	if met == trials {
		return soon
	}
	waits := f.waits()
	if met > 0 && len(waits) == trials {
		for i := range waits {
			if waits[i] = max(waits[i], soon[met-1]); i < met {
				waits[i] = soon[i]
			}
		}
	}
	return waits
}

// waits returns the outcomes of the trials in ascending order: less of them if the first ones suffice.
func (f *forecast) waits() []float64 {
	waits := make([]float64, 0, trials)
	for i := range trials {
		// How long a job that has outrun all known ones still runs is not known. The trials cover
		// the range. In the middle one, it runs on for the time by which it has outrun the others.
		f.late = (float64(i) + .5) / (trials - float64(i) - .5)
		f.reset()
		waits = append(waits, f.play())
		if len(waits) == trials/4 && slices.Min(waits) > maxWait.Seconds() {
			break
		}
	}
	slices.Sort(waits)
	return waits
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// unforeseeable says why it cannot be estimated when ending jobs make room for a wish. The result is
// empty if it can be estimated.
func (c *Contest) unforeseeable(w wish) string {
	most, running, known := int64(0), false, false
	for i := range c.Contenders {
		n := c.Contenders[i]
		if n.Running > 0 && n.Holds.Of(w.k) > 0 {
			most, running, known = max(most, n.Holds.Of(w.k)), true, known || c.knows(n)
		}
	}
	switch {
	case !running:
		return fmt.Sprintf("no running job holds any %s that it could release", w.k)
	case !known:
		return "too few jobs have ended to know how long jobs run"
	case most < w.needs.Of(w.k):
		return fmt.Sprintf("a job needs %s on one node, but no running job holds more than %s: several have to end on the same node, and smaller jobs may take what each of them releases",
			quantity(w.k, w.needs.Of(w.k)), quantity(w.k, most))
	}
	return ""
}

// never says why the turn of a wish does not come.
func (f *forecast) never() string {
	if op := &f.beginOps[f.target]; op.fair <= resource.Epsilon && !f.beginPools[op.pool].fifo {
		return "it has no fair share: it gets only what others leave unused, and they still have jobs to start"
	}
	if f.overran {
		return "its turn does not come within the next thousands of jobs: others keep taking what ending jobs release"
	}
	return fmt.Sprintf("at the rate at which jobs end now it takes more than %v", maxWait)
}

// forecast simulates the future: jobs end, and what they release goes to the operations whose turn
// it is, in the order of scheduling (F.13) and within limits. Operations come as they did before, and
// fair shares follow demand. All nodes count as one, only the lacking resource counts, and nobody is
// preempted.
type forecast struct {
	contest *Contest
	wish    wish
	target  int
	chance  *rand.Rand
	// late is how much longer a job runs once it has outrun all that have ended, as a factor of the
	// time by which it has outrun them. It is the same for all jobs, since what delays one delays
	// others.
	late float64
	// beginPools and beginOps are the state with which each trial begins.
	beginPools, pools []fieldPool
	beginOps, ops     []fieldOp
	// ages are the ages of the jobs of each contender.
	ages []ages
	// group is the maximum number of jobs that start and end together.
	group int64
	// near says that a trial is about the next ends, of single jobs or of small groups. horizon is the
	// time up to which it knows them, in seconds.
	near    bool
	horizon float64
	// maxEnds is the maximum number of groups of jobs that end in a trial.
	maxEnds int
	ends    []ending
	// drawn has room for ends, of which those that come next are taken. reaches is the horizon of the first such trial.
	drawn   []ending
	reaches float64
	free    float64
	// least is the amount that the smallest job needs.
	least float64
	// met is how many jobs of the wish have started.
	met int64
	// round counts the ends. turn counts the starts.
	round, turn int
	// overran says that a trial has reached maxEnds.
	overran bool
	// total is how much there is of the lacking resource. now is the time in the trial. moved says that
	// demand has changed since fair shares were found. shareAt is the first round in which they may be found again. children is scratch.
	total    float64
	now      float64
	moved    bool
	shareAt  int
	children []*contested
	// beginLeast is the field least at the beginning of a trial.
	beginLeast float64
}

// contested is what a pool and an operation have in common in a trial: amounts of the lacking
// resource. The field most is the maximum that limits allow.
type contested struct {
	fair, usage, most float64
	// guarantee and weight decide the fair share (F.7), with the demand. Simulated fair shares are
	// multiplied by scale.
	guarantee, weight, demand, scale float64
	// lack is what it has lacked of its fair share over time, up to the time `since`: amounts times
	// seconds. job is what its job needs.
	debt             Debt
	lack, job, since float64
	// satisfied is its satisfaction at the time judged, unless it is stale.
	satisfied, judged float64
	stale             bool
	// passed is the round in which the element was last passed over. served is the turn in which the
	// element was last served.
	passed, served int
}

// fieldPool is an arena in a trial.
type fieldPool struct {
	contested
	above      int
	fifo       bool
	pools, ops []int
	// queue has those of ops that have jobs to start, or had some when the trial began.
	queue []int
	// waiting is how many operations below have jobs to start.
	waiting int
	// rate is how many operations come, per second.
	rate float64
}

// fieldOp is a contender in a trial.
type fieldOp struct {
	contested
	pool, place int
	rank, jobs  int64
	needs       float64
	// beyond is what it demands for more jobs than these.
	beyond float64
	// lasts is how long its jobs run. pace is the factor by which `lasts` is multiplied. The factor
	// is 1 unless `lasts` comes from jobs of other operations. drawn says that both are set.
	lasts survival
	pace  float64
	drawn bool
}

// ending is a group of jobs that end together.
type ending struct {
	at    float64
	op    int
	jobs  int64
	holds float64
}

func newForecast(c *Contest, w wish, target int) *forecast {
	f := &forecast{contest: c, wish: w, target: target, chance: rand.New(rand.NewPCG(1, 2)), least: math.Inf(1)}
	total := float64(c.Total.Of(w.k))
	f.total = total
	common := func(fair resource.Vector, usage, limits, like resource.Amounts, weight float64, debt Debt) contested {
		job := debt.Job * total
		return contested{debt: debt, job: job, lack: debt.Lack * job, fair: fair[w.k] * total, usage: float64(usage.Of(w.k)), most: mostOf(w.k, limits, like), weight: max(weight, resource.Epsilon), scale: 1, stale: true}
	}
	for i := range c.Pools {
		a := &c.Pools[i]
		f.beginPools = append(f.beginPools, fieldPool{contested: common(a.Fair, a.Usage, a.Limits, a.Usage, a.Weight, a.Debt), above: a.Above, fifo: a.FIFO})
		f.beginPools[i].guarantee = a.Guarantee[w.k] * total
		if a.Above >= 0 {
			f.beginPools[a.Above].pools = append(f.beginPools[a.Above].pools, i)
		}
	}
	running, waiting := int64(0), 0
	for i := range c.Contenders {
		n := c.Contenders[i]
		op := fieldOp{contested: common(n.Fair, n.Usage, n.Limits, n.Needs, n.Weight, n.Debt), pool: n.Pool, place: n.Place, rank: n.Rank, jobs: n.Jobs, needs: float64(n.Needs.Of(w.k))}
		running += n.Running
		switch {
		case i == target:
			op.jobs, op.needs = w.jobs, float64(w.needs.Of(w.k))
			op.beyond = float64(max(n.Jobs-w.jobs, 0)) * op.needs
		case op.needs <= 0 || !w.fits(n.Needs):
			op.jobs = 0
		}
		f.beginPools[n.Pool].ops = append(f.beginPools[n.Pool].ops, i)
		if op.jobs > 0 {
			waiting++
			f.least = min(f.least, op.needs)
			f.beginPools[n.Pool].queue = append(f.beginPools[n.Pool].queue, i)
			for p := n.Pool; p >= 0; p = f.beginPools[p].above {
				f.beginPools[p].waiting++
			}
		}
		f.beginOps, f.ages = append(f.beginOps, op), append(f.ages, n.ages(w.now))
	}
	f.beginLeast = f.least
	f.group = max(1, running/groupsAtOnce)
	f.maxEnds = max(maxEnds/10, min(maxEnds, maxChoices/trials/(waiting+len(f.beginPools)+maxArrivals/2)))
	f.calibrate()
	return f
}

// mostOf returns the amount of a resource that an element may use within the limits, if it uses all
// resources in the proportions of the parameter like.
func mostOf(k resource.Kind, limits, like resource.Amounts) float64 {
	most := float64(limits.Of(k))
	for i := range resource.Count {
		if r := resource.Kind(i); like.Of(r) > 0 && like.Of(k) > 0 {
			most = min(most, float64(limits.Of(r))*float64(like.Of(k))/float64(like.Of(r)))
		}
	}
	return most
}

// reset begins a trial, with the jobs that run now.
func (f *forecast) reset() {
	f.pools, f.ops = append(f.pools[:0], f.beginPools...), append(f.ops[:0], f.beginOps...)
	f.ends, f.free, f.met, f.round, f.turn = f.ends[:0], 0, 0, 0, 0
	f.least, f.moved, f.shareAt, f.now = f.beginLeast, false, 0, 0
	if f.near {
		f.look()
	} else {
		f.lookFar()
	}
	for i := range f.pools {
		f.pools[i].rate = f.contest.Pools[i].Past.rate(f.wish.now, f.chance)
		f.expect(i, 0)
	}
}

// lookFar adds the ends of all jobs that run to a trial.
func (f *forecast) lookFar() {
	f.horizon = maxWait.Seconds()
	for i := range f.contest.Contenders {
		n := f.contest.Contenders[i]
		holds := float64(n.Holds.Of(f.wish.k))
		if n.Running == 0 || holds <= 0 {
			continue
		}
		ran := &f.ages[i]
		groups := (n.Running + f.group - 1) / f.group
		for j := range groups {
			from, to := j*n.Running/groups, (j+1)*n.Running/groups
			age := ran.of((from + to) / 2)
			f.push(ending{at: f.lasts(i, age) - age, op: i, jobs: to - from, holds: holds})
		}
	}
}

// look adds the next ends to a trial: about endsSoon of all that would come.
func (f *forecast) look() {
	all, most := f.drawn[:0], maxWait.Seconds()
	if f.reaches > 0 {
		// Those of an earlier trial tell where to look.
		most = 2 * f.reaches
	}
	for i := range f.contest.Contenders {
		n := f.contest.Contenders[i]
		holds := float64(n.Holds.Of(f.wish.k))
		if holds <= 0 {
			continue
		}
		groups := (n.Running + f.group - 1) / f.group
		for j := range groups {
			from, to := j*n.Running/groups, (j+1)*n.Running/groups
			age := f.ages[i].of((from + to) / 2)
			if at := f.lasts(i, age) - age; at <= most {
				all = append(all, ending{at: at, op: i, jobs: to - from, holds: holds})
			}
		}
	}
	slices.SortFunc(all, func(a, b ending) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op, b.op)) })
	f.drawn, f.horizon = all, most
	if len(all) > endsSoon {
		f.horizon = all[endsSoon].at
		f.reaches = cmp.Or(f.reaches, f.horizon)
	}
	// They are in order, and so they are a heap.
	f.ends = append(f.ends, all[:min(len(all), endsSoon)]...)
}
