package fairshare

import (
	"cmp"
	"slices"

	"weir/scheduling/resource"
)

// segment is a stretch of a pool's growth during which no child stops or turns.
//
// The growth is driven by the pressure: the level of each child is its weight
// times the pressure of its pool, until it has no more room.
type segment struct {
	// pressure and level are those at the beginning.
	pressure, level float64
	// slope is the growth of the pool's share per unit of pressure.
	slope resource.Vector
	// rate is the greatest component of slope: the growth of the level.
	rate float64
}

// turn is a pressure at which a child of a pool ends one of its segments and
// begins the next, or stops.
type turn struct {
	pressure float64
	child    int32
	// segment is the one that ends. That of an operation is always 0.
	segment int32
}

// scratch is memory that lives from one update to the next.
type scratch struct {
	turns []turn
}

// plan finds, bottom-up, how everything below e grows from here when exhausted
// resources stop those who demand them.
func (e *Element) plan(exhausted *[resource.Count]bool, s *scratch) {
	e.room = 0
	if e.Operation {
		if !e.demandsAny(exhausted) {
			e.room = e.DemandShare.MaxComponent() - e.level
		}
		return
	}
	for _, c := range e.Children {
		if c.Weight < resource.Epsilon {
			c.room = 0
			continue
		}
		c.plan(exhausted, s)
	}
	e.collectTurns(s)
	e.joinTurns(s.turns)
}

func (e *Element) demandsAny(exhausted *[resource.Count]bool) bool {
	for r, gone := range exhausted {
		if gone && e.direction[r] > 0 {
			return true
		}
	}
	return false
}

// collectTurns lists the turns of e's children, the last one first.
func (e *Element) collectTurns(s *scratch) {
	s.turns = s.turns[:0]
	for i, c := range e.Children {
		if c.room <= 0 {
			continue
		}
		for k := 1; k < len(c.segments); k++ {
			s.turns = append(s.turns, turn{c.segments[k].level / c.Weight, int32(i), int32(k - 1)})
		}
		s.turns = append(s.turns, turn{c.room / c.Weight, int32(i), int32(max(len(c.segments)-1, 0))})
	}
	slices.SortFunc(s.turns, func(a, b turn) int {
		return cmp.Or(
			cmp.Compare(b.pressure, a.pressure),
			cmp.Compare(a.child, b.child),
			cmp.Compare(b.segment, a.segment))
	})
}

// joinTurns makes the segments of e out of the turns of its children. It goes
// from the last turn to the first, for then a slope is a sum of the slopes of
// children that still grow, and the small do not drown in rounding errors of the
// great that have stopped.
func (e *Element) joinTurns(turns []turn) {
	e.segments = e.segments[:0]
	var slope resource.Vector
	for i, t := range turns {
		c := e.Children[t.child]
		slope = slope.Add(c.slopeIn(t.segment).Scale(c.Weight))
		if next := t.segment + 1; int(next) < len(c.segments) {
			slope = slope.Sub(c.slopeIn(next).Scale(c.Weight)).Max(resource.Vector{})
		}
		begin := 0.0
		if i+1 < len(turns) {
			begin = turns[i+1].pressure
		}
		if begin < t.pressure {
			e.segments = append(e.segments, segment{pressure: begin, slope: slope, rate: slope.MaxComponent()})
		}
	}
	if len(turns) == 0 {
		return
	}
	slices.Reverse(e.segments)
	level := 0.0
	for i := range e.segments {
		e.segments[i].level = level
		level += e.segments[i].rate * (e.endOf(i, turns[0].pressure) - e.segments[i].pressure)
	}
	e.room = level
	e.segments = mergeAlike(e.segments)
}

// endOf returns the pressure at which segment i ends; the last one does at last.
func (e *Element) endOf(i int, last float64) float64 {
	if i+1 < len(e.segments) {
		return e.segments[i+1].pressure
	}
	return last
}

// mergeAlike joins neighbours of one and the same slope.
func mergeAlike(s []segment) []segment {
	return slices.CompactFunc(s, func(a, b segment) bool { return a.slope == b.slope })
}

// slopeIn returns the growth of e per unit of its own level in a segment.
func (e *Element) slopeIn(k int32) resource.Vector {
	if e.Operation {
		return e.direction
	}
	return e.segments[k].slope.Scale(1 / e.segments[k].rate)
}

// reach returns how far the level of the root can grow until a resource is used
// up. It takes what this growth uses from free and marks the resources of which
// nothing is left.
func (e *Element) reach(free *resource.Vector, exhausted *[resource.Count]bool) float64 {
	for i, s := range e.segments {
		end := e.room
		if i+1 < len(e.segments) {
			end = e.segments[i+1].level
		}
		length := (end - s.level) / s.rate
		stop := length
		for r := range free {
			if s.slope[r] > 0 {
				stop = min(stop, max(free[r], 0)/s.slope[r])
			}
		}
		*free = free.Sub(s.slope.Scale(stop))
		full := false
		for r := range free {
			if s.slope[r] > 0 && free[r] <= negligible {
				exhausted[r] = true
				full = true
			}
		}
		if full {
			return s.level + stop*s.rate
		}
	}
	return e.room
}

// grow raises the level of e by this much, top-down.
func (e *Element) grow(level float64) {
	if level <= 0 || e.room <= 0 {
		return
	}
	if e.Operation {
		e.level += level
		if d := e.DemandShare.MaxComponent(); d-e.level <= negligible*d {
			e.level = d
		}
		return
	}
	pressure := e.pressureAt(level)
	for _, c := range e.Children {
		c.grow(min(pressure*c.Weight, c.room))
	}
}

// pressureAt returns the pressure at which e's level has grown by this much.
func (e *Element) pressureAt(level float64) float64 {
	after, _ := slices.BinarySearchFunc(e.segments, level, func(s segment, level float64) int {
		if s.level <= level {
			return -1
		}
		return 1
	})
	s := e.segments[after-1]
	return s.pressure + (level-s.level)/s.rate
}
