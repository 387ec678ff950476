package engine

import (
	"time"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/fairshare"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// element is what pools and operations have in common.
type element struct {
	share *fairshare.Element
	order *allocation.Element
	// name is the name of a pool. It is empty for an operation.
	name scheduling.PoolName
	// above is the pool that contains the element; nil for the root, and for an element in no pool.
	above *element
	// fifo says that the element is a pool in FIFO order.
	fifo bool
	// filter is the index of the element's own filter.
	filter int
	// limits are the limits that were set.
	limits resource.Amounts
	// ceiling is what max_share_ratio allows. beyond is the time when usage began to exceed the
	// ceiling; zero if it does not.
	ceiling resource.Amounts
	beyond  time.Time
	clock   preemption.Clock
	loss    loss
	debt    debt
	// lengths records how long jobs of the element ran.
	lengths explain.Lengths
	// past is what is known of the operations of a pool that came before.
	past explain.Past
}

func newElement(share *fairshare.Element, order *allocation.Element) element {
	return element{share: share, order: order, filter: allocation.NoFilter, limits: resource.Infinite, ceiling: resource.Infinite}
}

// attach puts an element into a pool.
func (e *element) attach(to *element) {
	e.above = to
	to.share.Children = append(to.share.Children, e.share)
	e.order.Attach(to.order)
}

// detach takes an element out of its pool.
func (e *element) detach() {
	e.above.share.Children = without(e.above.share.Children, e.share)
	e.order.Detach()
	e.above = nil
}

// shares returns the current shares as if the amounts in `more` were also used.
func (e *element) shares(more, total resource.Amounts) preemption.Shares {
	return preemption.Shares{Usage: resource.Share(e.order.Usage().Add(more), total), Fair: e.share.FairShare, Min: e.share.MinShare, Demand: e.share.DemandShare}
}

// ceiling returns what max_share_ratio lets an element use: that ratio of the limits share of its
// parent, as of the last update (L2). It limits usage as it limits fair shares.
func ceiling(e *fairshare.Element, parent resource.Vector, total resource.Amounts) resource.Amounts {
	if !hasCeiling(e) {
		return resource.Infinite
	}
	return parent.Scale(e.MaxShareRatio).Amounts(total)
}

func hasCeiling(e *fairshare.Element) bool { return e.MaxShareRatio >= 0 && e.MaxShareRatio < 1 }

// keptCeiling returns the ceiling between an edit and the next update: the previous one, or zero if
// there was none.
func keptCeiling(e *fairshare.Element, was resource.Amounts) resource.Amounts {
	switch {
	case !hasCeiling(e):
		return resource.Infinite
	case was == resource.Infinite:
		return resource.Amounts{}
	}
	return was
}

// bound sets the limits and the ceiling of an element, and passes the lower of both to the order of
// scheduling.
func (e *element) bound(limits, ceiling resource.Amounts) {
	if ceiling == resource.Infinite {
		e.beyond = time.Time{}
	}
	e.limits, e.ceiling = limits, ceiling
	e.order.SetLimits(limits.Min(ceiling))
}

const (
	// debtPeriod is the change in a debt, in seconds of one whole job, that moves the rounding from
	// one end of its range to the other.
	debtPeriod = time.Minute
	// debtHorizon bounds a debt to one job that was missing, or in excess, for this long.
	debtHorizon = time.Hour
	// debtTurn is how long an element keeps a part of a job beyond its fair share while a sibling
	// lacks an equal part. The unit is time for which a whole fair share is missing.
	debtTurn = 20 * time.Minute
)

// debt is how far an element has been below its fair share, integrated over time. The unit is share
// x seconds of the decisive resource of its next job. It is negative if the element had too much.
// Jobs are whole and fair shares are not, so some element always has a part of a job too much or
// too little. The debt decides whose fair share is rounded up next, so that over time each element
// gets its own share.
type debt struct {
	lack float64
	// owed is the debt in preemption: work that is lost for the element counts as received.
	owed float64
	// rate is the share that the element has lacked since the last update. kept is what is kept
	// free for the element. It counts as received, because others cannot use it.
	rate float64
	kept resource.Amounts
	// job is what the next job needs of the decisive resource, as a share. If no job waits, it is
	// what the last one needed.
	job float64
}

// debtOf returns the debt of an element.
func debtOf(e *allocation.Element) *debt {
	if p, ok := e.Owner().(*pool); ok {
		return &p.debt
	}
	return &e.Owner().(*operation).debt
}

// pay counts the work that others lose, because their jobs are preempted for the element, as
// received by the element. So an element that crowds others out costs them no more than its own
// fair share in the end. Its turn at free resources does not change. It returns what is paid.
func (d *debt) pay(lost resource.Amounts, ran time.Duration, total resource.Amounts) payment {
	p := payment{d, resource.MaxRatio(lost, total) * ran.Seconds()}
	d.owed -= p.amount
	return p
}

// payment is what an element has paid for a job that leaves. The zero value is nothing.
type payment struct {
	by     *debt
	amount float64
}

// takeBack undoes a payment: the job stays.
func (p payment) takeBack() {
	if p.by != nil {
		p.by.owed += p.amount
	}
}

// pass advances the debt by the passed time. The lack or excess that is remembered is bounded by
// one next job, missing or in excess for debtHorizon. What the element has paid is remembered
// without a bound. An element that asks for nothing lacks nothing.
func (d *debt) pass(e *fairshare.Element, k resource.Kind, next resource.Amounts, passed time.Duration, total resource.Amounts) {
	if passed < 0 || passed > debtHorizon {
		// This is the first update, or one after a long pause.
		passed = 0
	}
	more, most := d.rate*passed.Seconds(), 0.
	if next != resource.Infinite {
		d.job = resource.Share(next, total)[k]
		most = d.job * debtHorizon.Seconds()
	}
	least := -d.job * debtHorizon.Seconds()
	d.lack = max(min(d.lack+more, most), least)
	d.owed = max(min(d.owed+more, most), min(d.owed, least))
	d.rate = e.FairShare[k] - e.UsageShare[k] - resource.Share(d.kept, total)[k]
	d.kept = resource.Amounts{}
}

// owe advances an element's debt by the passed time and passes the debt to the order of scheduling.
// If owes is false the debt is cleared: elements of pools that do not go by their own satisfaction
// have no debt.
func (u *update) owe(of *element, passed time.Duration, owes bool) {
	d, order := &of.debt, of.order
	if !owes {
		*d = debt{}
		order.SetDebt(allocation.Debt{})
		return
	}
	k := order.Decisive(order.Next())
	d.pass(of.share, k, order.Next(), passed, u.cluster.total)
	order.SetDebt(d.told(of.share.FairShare[k]))
}

// told returns the debt in the form that the order of scheduling uses. The parameter fair is the
// element's fair share.
func (d *debt) told(fair float64) (told allocation.Debt) {
	if d.job > 0 {
		told.Rounding, told.Crowding = rounded(d.lack/d.job), min(rounded(d.owed/d.job), .5)
	}
	if d.job > 0 && fair > 0 {
		told.Lag = d.owed / fair
	}
	return told
}

// known describes a debt to inquiries.
func (d *debt) known(counts bool) explain.Debt {
	known := explain.Debt{Counts: counts, Job: d.job, Period: debtPeriod.Seconds(), Horizon: debtHorizon.Seconds()}
	if d.job > 0 {
		known.Lack = d.lack / d.job
	}
	return known
}

// rounded returns the part of a job that counts as used by an element that has lacked a whole job
// for this many seconds.
func rounded(lack float64) float64 { return min(max(.5-lack/debtPeriod.Seconds(), 0), 1) }
