package state

import (
	"cmp"
	"slices"

	"weir/scheduling"
	"weir/scheduling/cookies"
)

// queue holds the pending cookies of a task, grouped by memory reserve. The cookies of group 0 get
// the reserve that the task has learned. Each cookie of another group had a job aborted for
// exceeding its memory; the group's number is the cookie's reserve in bytes.
type queue struct {
	learned cookies.IntervalSet
	// dedicated is sorted by memory; no group is empty.
	dedicated []dedicatedGroup
}

type dedicatedGroup struct {
	memory  int64
	cookies cookies.IntervalSet
}

func (q *queue) find(group int64) (int, bool) {
	return slices.BinarySearchFunc(q.dedicated, group, func(g dedicatedGroup, memory int64) int { return cmp.Compare(g.memory, memory) })
}

func (q *queue) add(group int64, c scheduling.Cookie) {
	if group == 0 {
		q.learned.Add(c)
		return
	}
	i, found := q.find(group)
	if !found {
		q.dedicated = slices.Insert(q.dedicated, i, dedicatedGroup{memory: group})
	}
	q.dedicated[i].cookies.Add(c)
}

// pop removes and returns the lowest cookie of a group; ok is false if there is none.
func (q *queue) pop(group int64) (c scheduling.Cookie, ok bool) {
	if group == 0 {
		return q.learned.PopFirst()
	}
	i, found := q.find(group)
	if !found {
		return 0, false
	}
	c, ok = q.dedicated[i].cookies.PopFirst()
	if q.dedicated[i].cookies.Len() == 0 {
		q.dedicated = slices.Delete(q.dedicated, i, i+1)
	}
	return c, ok
}

// len returns the number of pending cookies of a group.
func (q *queue) len(group int64) int64 {
	if group == 0 {
		return q.learned.Len()
	}
	if i, found := q.find(group); found {
		return q.dedicated[i].cookies.Len()
	}
	return 0
}

// groups returns the groups in ascending order; 0 is always one of them.
func (q *queue) groups() []int64 {
	groups := make([]int64, 1, 1+len(q.dedicated))
	for _, g := range q.dedicated {
		groups = append(groups, g.memory)
	}
	return groups
}

// all returns the cookies of all groups; the result belongs to the caller.
func (q *queue) all() cookies.IntervalSet {
	all := q.learned.Clone()
	for _, g := range q.dedicated {
		for _, interval := range g.cookies.Intervals() {
			all.AddInterval(interval)
		}
	}
	return all
}

func (q *queue) clone() queue {
	c := queue{learned: q.learned.Clone(), dedicated: slices.Clone(q.dedicated)}
	for i := range c.dedicated {
		c.dedicated[i].cookies = c.dedicated[i].cookies.Clone()
	}
	return c
}
