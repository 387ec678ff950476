package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/fairshare"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// meter accounts for what pools want, use and are due. Amounts are integrated over time
// exactly, from event to event.
type meter struct {
	total resource.Amounts
	// present is what the leader believes is online: `total` without the lost nodes.
	present resource.Amounts
	// root is the root pool's account. accounts and ordered both have all accounts; in ordered,
	// parents come before their children.
	root     *account
	accounts map[scheduling.PoolName]*account
	ordered  []*account

	operations Operations
	jobs       Jobs
	memory     memoryMeter
	// preempted counts jobs that were ordered to stop, by kind of preemption or reason.
	preempted map[string]int64
	// jobWaits are the waits of jobs. firstWaits are the waits of operations for their first
	// job. Both are in seconds.
	jobWaits, firstWaits []float32
	// unfair is the part of the cluster that was used contrary to fair shares, times seconds;
	// measured is how many seconds were judged.
	unfair, measured float64
	// days are the finished days; today is the beginning of the current one.
	days  []Day
	today time.Duration
}

// account is the account of a pool, including all pools below it.
type account struct {
	name   scheduling.PoolName
	parent *account
	leaf   bool
	// fifo is the sort keys of a FIFO pool, if the order of its operations is fixed; nil
	// otherwise.
	fifo   []string
	usage  resource.Amounts
	demand resource.Amounts
	// The sums below reach up to this time.
	at time.Duration
	// used and wanted are resource x seconds since the beginning. In `wanted`, demand counts up
	// to what the cluster has.
	used, wanted sums
	// parts is usage in share x seconds, as shares of the resources online; partsBefore is the
	// value of `parts` at the last update.
	parts, partsBefore resource.Vector
	// before is the value of `used` at the last fair share update. dayUsed and dayWanted are the
	// CPU in `used` and `wanted` at midnight.
	before                sums
	dayUsed, dayWanted    float64
	fair, promised, bonus float64
	// owed is what was promised, in share x seconds; fulfilled is how much of that was used.
	owed, fulfilled float64
	volume          float64
	// granted is what integral guarantees gave, in share x seconds. `most` is the greatest share
	// given.
	granted, most float64
	grants        []grant
	integral      bool
	// waits are the times of jobs until they start. times are those of operations until they
	// end. Both are in seconds.
	waits, times []float32
	outcome      outcome
}

// grant is a share that an integral guarantee gave for some time.
type grant struct {
	share float64
	d     time.Duration
}

// sums are amounts x seconds by resource; CPU is in hundredths of a core.
type sums [resource.Count]float64

func (s *sums) add(a resource.Amounts, seconds float64) {
	for k := range resource.Count {
		s[k] += float64(a.Of(resource.Kind(k))) * seconds
	}
}

// of returns the sum of one resource, in amount x seconds. CPU is in cores.
func (s sums) of(k resource.Kind) float64 {
	if k == resource.CPU {
		return s[k] / 100
	}
	return s[k]
}

func newMeter(f *File) *meter {
	m := &meter{accounts: map[scheduling.PoolName]*account{}, jobs: Jobs{Ended: map[string]int64{}}, preempted: map[string]int64{}}
	for _, group := range f.Nodes {
		m.total = m.total.Add(group.Resources.Times(group.Count))
	}
	m.present = m.total
	m.root = &account{name: scheduling.RootPool, outcome: outcome{wanted: -1, less: -1, over: -1, limits: resource.Infinite}}
	m.accounts[scheduling.RootPool], m.ordered = m.root, []*account{m.root}
	for _, p := range f.Pools.ParentsFirst() {
		a := &account{name: p.Name, parent: m.accounts[p.Parent], leaf: len(f.Pools.Children(p.Name)) == 0}
		effective := f.effective(p.Name)
		if effective.Mode == pooltree.FIFO && !effective.FIFOReordering && !slices.Contains(effective.FIFOSort, pooltree.SortByPendingJobCount) {
			a.fifo = effective.FIFOSort
		}
		a.outcome = outcome{Outcome: Outcome{Leaf: a.leaf, Patience: f.patienceOf(p.Name, resource.Amounts{})}, wanted: -1, less: -1, over: -1, limits: effective.Limits}
		m.accounts[p.Name] = a
		m.ordered = append(m.ordered, a)
	}
	return m
}

// settle integrates an account up to now.
func (m *meter) settle(a *account, now time.Duration) {
	if now > a.at {
		seconds := (now - a.at).Seconds()
		a.used.add(a.usage, seconds)
		a.wanted.add(a.demand.Min(m.total).Max(a.usage), seconds)
		a.parts = a.parts.Add(resource.Share(a.usage, m.present).Scale(seconds))
		a.at = now
	}
}

// appears notes that resources have come online or, if negative, gone offline.
func (m *meter) appears(now time.Duration, resources resource.Amounts) {
	for _, a := range m.ordered {
		m.settle(a, now)
	}
	m.present = m.present.Add(resources)
	for _, a := range m.ordered {
		a.outcome.sized(resource.Amounts{}, m.present)
	}
}

// change adds to usage and demand of a pool and of all above it.
func (m *meter) change(now time.Duration, a *account, usage, demand resource.Amounts) {
	for ; a != nil; a = a.parent {
		m.settle(a, now)
		a.usage, a.demand = a.usage.Add(usage), a.demand.Add(demand)
		a.outcome.wants(now, a.demand, resource.MaxRatio(a.demand, m.present) < a.promised-resource.LargeEpsilon)
		a.outcome.uses(now, a.usage)
	}
}

func (m *meter) started(now time.Duration, op *operation, a *statepb.Allocation) {
	op.running++
	m.jobs.Running++
	m.jobs.Started++
	holds := a.GetResources().Amounts()
	m.change(now, op.pool, holds, holds)
	since, again := op.waits[a.GetCookie()]
	if again {
		delete(op.waits, a.GetCookie())
	} else {
		since = op.runs
	}
	m.jobWaits = append(m.jobWaits, float32((now - since).Seconds()))
	op.pool.waits = append(op.pool.waits, float32((now - since).Seconds()))
	if !op.begun {
		op.begun = true
		for a := op.pool; a != nil; a = a.parent {
			a.outcome.begins(now)
		}
		m.firstWaits = append(m.firstWaits, float32((now - op.accepted).Seconds()))
	}
}

func (m *meter) ended(now time.Duration, op *operation, e state.Ended) {
	op.running--
	m.jobs.Running--
	less := resource.Amounts{}.Sub(e.Allocation.GetResources().Amounts())
	m.change(now, op.pool, less, less)
	if op.loses(e) {
		for a := op.pool; a != nil; a = a.parent {
			a.outcome.lose(now, e.Allocation)
		}
	}
	why := cmp.Or(e.Finished.GetAbortReason(), e.Finished.GetState())
	m.jobs.Ended[why]++
	// A job that has not done its work is pending again.
	if e.Finished.GetState() != lifecycle.JobCompleted.String() || *op.Job.Restart || e.Finished.GetRerun() {
		op.waits[e.Allocation.GetCookie()] = now
	}
}

// wants notes how many jobs of an operation's group are pending.
func (m *meter) wants(now time.Duration, op *operation, group, pending int64) {
	i := slices.IndexFunc(op.demand, func(d demand) bool { return d.group == group })
	if i < 0 {
		i = len(op.demand)
		op.demand = append(op.demand, demand{group: group})
	}
	was, perJob := op.demand[i], op.perJob
	if group != 0 {
		perJob.Memory = group
	}
	is := demand{group, pending, perJob.Times(pending)}
	if is == was {
		return
	}
	m.change(now, op.pool, resource.Amounts{}, is.amounts.Sub(was.amounts))
	m.jobs.Pending += is.pending - was.pending
	op.demand[i] = is
	if group != 0 && pending == 0 {
		op.demand = slices.Delete(op.demand, i, i+1)
	}
}

// wantsNothing notes that an operation's pending jobs will not run.
func (m *meter) wantsNothing(now time.Duration, op *operation) {
	for _, d := range slices.Clone(op.demand) {
		m.wants(now, op, d.group, 0)
	}
}

// stopped counts an order to stop.
func (m *meter) stopped(op *operation, order *statepb.StopOrder) {
	if order.GetPreemption() != "" {
		for a := op.pool; a != nil; a = a.parent {
			a.outcome.Preempted++
		}
	}
	m.preempted[cmp.Or(order.GetPreemption(), order.GetReason())]++
}

// judge compares what pools used since the last update with the fair shares which that update
// computed. `room` reports whether one more job of a pool would fit.
func (m *meter) judge(now, since time.Duration, room func(*account) bool) {
	d := now - since
	if d <= 0 {
		return
	}
	wrong := 0.0
	for _, a := range m.ordered {
		m.settle(a, now)
		mean := a.meanShare(m.total, d)
		a.outcome.interval(since, now, a.parts.Sub(a.partsBefore).Scale(1/d.Seconds()), a.promised, func() bool { return room(a) })
		a.before, a.partsBefore = a.used, a.parts
		if a.leaf {
			wrong += math.Abs(mean - a.fair)
		}
		a.owed += a.promised * d.Seconds()
		a.fulfilled += min(mean, a.promised) * d.Seconds()
		if a.integral {
			a.granted += a.bonus * d.Seconds()
			a.most = max(a.most, a.bonus)
			a.grant(d)
		}
	}
	m.unfair += wrong / 2 * d.Seconds()
	m.measured += d.Seconds()
}

// grant notes that the present integral share was given for the time `d`.
func (a *account) grant(d time.Duration) {
	if n := len(a.grants); n > 0 && a.grants[n-1].share == a.bonus {
		a.grants[n-1].d += d
		return
	}
	a.grants = append(a.grants, grant{a.bonus, d})
}

// lasted returns for how long at least half of the greatest grant was given.
func (a *account) lasted() time.Duration {
	var sum time.Duration
	for _, g := range a.grants {
		if g.share > 0 && g.share >= a.most/2 {
			sum += g.d
		}
	}
	return sum
}

// meanShare returns the dominant share of the mean usage since the last update, which was the
// time `d` ago.
func (a *account) meanShare(total resource.Amounts, d time.Duration) float64 {
	most := 0.0
	for k := range resource.Count {
		if t := float64(total.Of(resource.Kind(k))); t > 0 {
			most = max(most, (a.used[k]-a.before[k])/d.Seconds()/t)
		}
	}
	return most
}

// found notes the result of a fair share update.
func (m *meter) found(pools []engine.PoolView) {
	for _, p := range pools {
		a := m.accounts[p.Name]
		if a == nil {
			continue
		}
		parts := p.Shares.Attributes.Parts
		a.fair = p.Shares.FairShare.MaxComponent()
		a.promised = parts.Strong.Add(parts.Integral).MaxComponent()
		a.bonus = parts.Integral.MaxComponent()
		a.outcome.fair, a.outcome.demand = p.Shares.FairShare, p.Shares.DemandShare
		a.volume = p.Integral.RatioVolume
		a.integral = p.Integral.Type != fairshare.NoIntegral
	}
}

// midnight closes a day, or the part of it that was simulated.
func (m *meter) midnight(now time.Duration) {
	if now == m.today {
		return
	}
	closed := Day{Day: len(m.days) + 1}
	for _, a := range m.ordered {
		m.settle(a, now)
		used, wanted := a.used[resource.CPU], a.wanted[resource.CPU]
		if a != m.root {
			closed.Pools = append(closed.Pools, PoolDay{a.name, (wanted - a.dayWanted) / 100, (used - a.dayUsed) / 100})
		}
		a.dayUsed, a.dayWanted = used, wanted
	}
	slices.SortFunc(closed.Pools, func(a, b PoolDay) int { return cmp.Compare(a.Pool, b.Pool) })
	m.days = append(m.days, closed)
	m.today = now
}

// utilization is the part of a resource that was used.
func (m *meter) utilization(k resource.Kind, d time.Duration) float64 {
	if m.total.Of(k) == 0 || d == 0 {
		return 0
	}
	return m.root.used[k] / d.Seconds() / float64(m.total.Of(k))
}
