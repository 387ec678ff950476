package pool

import (
	"weir/messages/actorpb"
	"weir/scheduling"
)

// gap is a period for which this leader has no points. Another replica may have recorded points as
// the leader in that period, and others may have copied those points.
type gap struct {
	// secondsAfter and minutesAfter are the times of the last known points before the gap. `second` is
	// the time of the first point after the gap.
	secondsAfter, minutesAfter, second int64
}

// notice starts a gap if points before this second are missing.
func (t *treeHistory) notice(second int64) {
	if t.gap == nil && second > t.second+1 {
		t.gap = &gap{t.second, t.minute, second}
	}
}

// Lacks returns the request for the points in the gap of a tree, to be sent to followers; nil if
// there is no gap.
func (h *Histories) Lacks(tree scheduling.TreeName) *actorpb.PoolHistoryRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.trees[tree]
	if t == nil || t.gap == nil {
		return nil
	}
	return &actorpb.PoolHistoryRequest{Tree: string(tree), SecondsAfter: t.gap.secondsAfter, MinutesAfter: t.gap.minutesAfter, OfFollower: true}
}

// Filled records that all followers have answered the request of Lacks.
func (h *Histories) Filled(asked *actorpb.PoolHistoryRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.trees[scheduling.TreeName(asked.GetTree())]
	if t != nil && t.gap != nil && t.gap.secondsAfter == asked.GetSecondsAfter() && t.gap.minutesAfter == asked.GetMinutesAfter() {
		t.gap = nil
	}
}

// Fill adds a follower's points that are missing here, and returns the next request to that
// follower; nil if the follower has no more points.
func (h *Histories) Fill(m *actorpb.PoolHistoryRequest, answer *actorpb.PoolHistory) (next *actorpb.PoolHistoryRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.trees[scheduling.TreeName(m.GetTree())]
	if t == nil || t.gap == nil {
		return nil
	}
	known := make(map[scheduling.PoolID]history, len(t.pools))
	for _, of := range t.pools {
		known[of.id] = of
	}
	// The value of a minute in the gap may be the mean of fewer seconds here than at the follower.
	minutes := interval{t.gap.secondsAfter/60 - 1, min(t.gap.second/60, t.minute)}
	for _, p := range answer.GetPools() {
		of, ok := known[scheduling.PoolID(p.GetPoolId())]
		if p.GetPoolId() == 0 {
			of, ok = t.pools[scheduling.PoolName(p.GetPool())]
		}
		if ok {
			fill(of.seconds, p.GetSeconds(), interval{t.second - KeptSeconds, t.second}, interval{})
			fill(of.minutes, p.GetMinutes(), interval{t.minute - KeptMinutes, t.minute}, minutes)
			of.average(max(minutes.after, (t.second-KeptSeconds)/60, m.GetSecondsAfter()/60-1)+1, min(minutes.until, answer.GetSecondsUntil()/60))
		}
	}
	next = &actorpb.PoolHistoryRequest{
		Tree: m.GetTree(), SecondsAfter: answer.GetSecondsUntil(), MinutesAfter: answer.GetMinutesUntil(), OfFollower: true,
	}
	nothing := next.SecondsAfter <= m.GetSecondsAfter() && next.MinutesAfter <= m.GetMinutesAfter()
	all := next.SecondsAfter >= min(answer.GetSecondsNewest(), t.gap.second) && next.MinutesAfter >= answer.GetMinutesNewest()
	if nothing || all {
		return nil
	}
	return next
}

// average recomputes past minutes as the means of their known seconds.
func (of history) average(from, to int64) {
	for m := from; m <= to; m++ {
		if p, ok := of.seconds.mean(m*60, m*60+60); ok {
			of.minutes.put(m, p)
		}
	}
}

// fill stores the points with times in `kept` that are not known here. For times in `more`, where
// the other side has better points, it also replaces known points.
func fill(r ring, points *actorpb.Points, kept, more interval) {
	each(points, func(at int64, p Point) {
		if _, known := r.at(at); kept.has(at) && (!known || more.has(at)) {
			r.put(at, p)
		}
	})
}
