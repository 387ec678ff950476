package fairshare

import (
	"slices"
	"time"

	"weir/scheduling/resource"
)

// base is what UpdateChanged builds on: the last update of everything, and how many points its
// functions took.
type base struct {
	known   bool
	options Options
	points  int
}

// An update of everything costs less where more than fewChanged operations have changed, and more
// than one in manyChanged: the functions of nearly all pools have to be built again.
const fewChanged, manyChanged = 100, 50

// sparePoints is how many points of replaced functions may be kept, besides as many as are in use.
const sparePoints = 1 << 16

// UpdateChanged is Update for a tree in which nothing has changed since the last update but volumes,
// and of these operations usage, demand, pending jobs, limits, best allocation share and Gang. The
// result is exactly that of Update. The cost follows what changed:
//
//   - functions are built again for the operations, and for the pools above them;
//   - the share of the root is found without its function (top.go);
//   - shares are passed down to elements with new input and where they differ from the last ones.
//     Where children compete, and one of them wants more or less, all of them get other shares.
//
// Where that is not possible, or would cost more, it is Update: for other options or another total,
// in vector mode, where FIFO pools reorder gangs, when the order of a FIFO pool changes, and when
// more than a fiftieth of the operations has changed.
func (t *Tree) UpdateChanged(total resource.Amounts, now time.Time, changed []*Element) (Report, error) {
	o := t.Options
	if !t.base.known || o != t.base.options || total != t.total || o.VectorFitFactor || o.GangStep && o.FIFOReordering ||
		len(changed) > max(fewChanged, t.operations/manyChanged) || len(t.points) > 2*t.base.points+sparePoints {
		return t.Update(total, now)
	}
	t.begin(false)
	for _, op := range changed {
		t.readOperation(op)
	}
	if !t.touched.read(total) {
		return t.Update(total, now)
	}
	if len(t.burst)+len(t.relaxed) > 0 {
		forgetGrants(t.pools)
	}
	t.updateVolumes(now)
	return t.divide(now), nil
}

func (t *Tree) begin(whole bool) {
	t.updates++
	t.whole, t.guaranteed, t.touched = whole, false, t.touched[:0]
}

// readOperation reads the input of one operation, in a tree that is otherwise as it was.
func (t *Tree) readOperation(op *Element) {
	op.readLimits(t.total, t.Root.LimitsShare)
	op.schedulable = op.Demand != op.Usage
	op.readShares(t.total)
	t.touched.add(op, t.updates)
	if t.prepareOperation(op) {
		op.parent.Pool.inputs++
		op.parent.forget()
	}
}

// touched are pools at or below which there is new input or another function.
type touched []*Element

// add notes that an element has new input or another function in this update.
func (t *touched) add(e *Element, update uint64) {
	for ; e != nil && e.touched != update; e = e.parent {
		e.touched = update
		if e.Pool != nil {
			*t = append(*t, e)
		}
	}
}

// read sums up the input of the pools, and puts each after the pools below it. It returns false if the
// children of a FIFO pool are to be served in another order.
func (t touched) read(total resource.Amounts) bool {
	slices.SortFunc(t, func(a, b *Element) int { return b.Pool.index - a.Pool.index })
	for _, e := range t {
		if e.Pool.Mode == FIFO {
			e.queueChildren()
			if !slices.IsSortedFunc(e.Children, e.Pool.compare) {
				return false
			}
		}
		e.sum(total)
		if least := e.StrongGuaranteeShare.Min(e.DemandShare); least != e.MinShare {
			e.MinShare = least
			for _, c := range e.Children {
				if c.Pool == nil {
					c.findMinShare()
				}
			}
		}
	}
	return true
}

// sum sums up the input of the children of a pool.
func (e *Element) sum(total resource.Amounts) {
	e.Demand, e.Usage = resource.Amounts{}, resource.Amounts{}
	e.schedulable = false
	for i, c := range e.Children {
		e.Demand, e.Usage = e.Demand.Add(c.Demand), e.Usage.Add(c.Usage)
		e.schedulable = e.schedulable || c.schedulable
		e.Pool.branches[i].function = c.bySuggestion
	}
	e.readShares(total)
}

// forgetGrants takes back what volumes paid for in the last update.
func forgetGrants(pools []*Element) {
	for _, e := range pools {
		e.Pool.round = 0
		if !e.IntegralShare.IsZero() {
			e.IntegralShare = resource.Vector{}
			e.forget()
		}
	}
}

// keep lets the points of an arena that begin at `from` be the function s, in the place of what it
// was if there is room, and reports whether that differed.
func (s *span) keep(arena []point, from int) (kept []point, changed bool) {
	f, end := arena[from:], int32(len(arena))
	switch n := int32(len(f)); {
	case slices.Equal(f, s.of(arena)):
		return arena[:from], false
	case s.from+n <= s.end:
		copy(arena[s.from:], f)
		s.to = s.from + n
		return arena[:from], true
	default:
		spare := n / 8
		*s = span{int32(from), end, end + spare}
		return slices.Grow(arena, int(spare))[:end+spare], true
	}
}
