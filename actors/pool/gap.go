package pool

import (
	"weir/messages/actorpb"
	"weir/scheduling"
)

// gap is a time of which who records knows nothing: another may have recorded then, and
// others have taken it over.
type gap struct {
	// secondsAfter and minutesAfter are what is known last before it; second is known again.
	secondsAfter, minutesAfter, second int64
}

// notice takes that a point is recorded.
func (t *treeHistory) notice(second int64) {
	if t.gap == nil && second > t.second+1 {
		t.gap = &gap{t.second, t.minute, second}
	}
}

// Lacks asks others for what of a tree was not known when recording began or went on; nil:
// nothing.
func (h *Histories) Lacks(tree scheduling.TreeName) *actorpb.PoolHistoryRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.trees[tree]
	if t == nil || t.gap == nil {
		return nil
	}
	return &actorpb.PoolHistoryRequest{Tree: string(tree), SecondsAfter: t.gap.secondsAfter, MinutesAfter: t.gap.minutesAfter, OfFollower: true}
}

// Filled says that nobody else can tell more of what Lacks has asked for.
func (h *Histories) Filled(asked *actorpb.PoolHistoryRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.trees[scheduling.TreeName(asked.GetTree())]
	if t != nil && t.gap != nil && t.gap.secondsAfter == asked.GetSecondsAfter() && t.gap.minutesAfter == asked.GetMinutesAfter() {
		t.gap = nil
	}
}

// Fill takes of what a follower knows what is not known here, and returns what to ask it
// next; nil: it has told all.
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
	// A minute of the gap may have been averaged over less than what another knows of it.
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

// average has minutes that are over be the means of what is known by now of their seconds.
func (of history) average(from, to int64) {
	for m := from; m <= to; m++ {
		if p, ok := of.seconds.mean(m*60, m*60+60); ok {
			of.minutes.put(m, p)
		}
	}
}

// fill keeps points of times that are kept still, and not known or in those of which others
// know more.
func fill(r ring, points *actorpb.Points, kept, more interval) {
	each(points, func(at int64, p Point) {
		if _, known := r.at(at); kept.has(at) && (!known || more.has(at)) {
			r.put(at, p)
		}
	})
}
