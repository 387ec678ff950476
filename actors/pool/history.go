package pool

import (
	"maps"
	"slices"
	"sync"
	"time"

	"weir/messages/actorpb"
	"weir/scheduling"
)

// The points kept per pool: one a second for an hour, and one a minute for a day.
const (
	KeptSeconds = 3600
	KeptMinutes = 24 * 60
)

// maxPoints bounds the points in one answer, to about 600 KiB.
const maxPoints = 20_000

// Histories holds the history of pools, by tree. The leader records it and the other replicas copy
// it, so that each can continue it as the next leader. A new leader asks the others for points that
// it lacks. The history takes at most 88 KB per pool. A pool that is removed loses its history.
type Histories struct {
	mu    sync.Mutex
	trees map[scheduling.TreeName]*treeHistory
}

// NewHistories returns empty histories.
func NewHistories() *Histories { return &Histories{trees: map[scheduling.TreeName]*treeHistory{}} }

// treeHistory is the history of the pools of a tree. All pools have points at the same times,
// unless they were created later.
type treeHistory struct {
	// second and minute are the times of the newest known points.
	second, minute int64
	pools          map[scheduling.PoolName]history
	// gap is the gap to fill from followers; nil if there is none.
	gap *gap
}

// history is the history of one pool across renames; the id is 0 if the pool is identified by its
// name.
type history struct {
	id               scheduling.PoolID
	seconds, minutes ring
}

// Sample is the state of a pool at a moment.
type Sample struct {
	ID scheduling.PoolID
	Point
}

// Keep removes all trees except these.
func (h *Histories) Keep(trees []scheduling.TreeName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.trees, func(name scheduling.TreeName, _ *treeHistory) bool { return !slices.Contains(trees, name) })
}

// Due reports whether the tree has no point yet for the second that contains now.
func (h *Histories) Due(tree scheduling.TreeName, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.trees[tree]
	return t == nil || t.second != now.Unix()
}

// Record adds the point of this second for all pools of a tree. When a minute is over, its point
// is the mean of its seconds.
func (h *Histories) Record(tree scheduling.TreeName, now time.Time, pools map[scheduling.PoolName]Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tree(tree)
	second := now.Unix()
	t.notice(second)
	if minute := second/60 - 1; minute > t.minute || minute < t.minute-1 {
		for _, of := range t.pools {
			// Several minutes may have passed since the last point.
			for m := max(t.minute+1, minute-KeptSeconds/60); m <= minute; m++ {
				if p, ok := of.seconds.mean(m*60, m*60+60); ok {
					of.minutes.put(m, p)
				}
			}
		}
		t.minute = minute
	}
	ids := make(map[scheduling.PoolName]scheduling.PoolID, len(pools))
	for name, p := range pools {
		ids[name] = p.ID
	}
	t.keep(ids)
	for name, p := range pools {
		t.pools[name].seconds.put(second, p.Point)
	}
	t.second = second
}

func (h *Histories) tree(name scheduling.TreeName) *treeHistory {
	t := h.trees[name]
	if t == nil {
		t = &treeHistory{pools: map[scheduling.PoolName]history{}}
		h.trees[name] = t
	}
	return t
}

// keep keeps the histories of these pools, under their current names, and adds empty ones for new
// pools.
func (t *treeHistory) keep(pools map[scheduling.PoolName]scheduling.PoolID) {
	known := make(map[scheduling.PoolID]history, len(t.pools))
	for _, of := range t.pools {
		known[of.id] = of
	}
	kept := make(map[scheduling.PoolName]history, len(pools))
	for name, id := range pools {
		of, ok := t.pools[name]
		ok = ok && (of.id == id || of.id == 0)
		if !ok && id != 0 {
			of, ok = known[id]
		}
		if !ok {
			of = history{seconds: newRing(KeptSeconds), minutes: newRing(KeptMinutes)}
		}
		of.id = id
		kept[name] = of
	}
	t.pools = kept
}

// Missing returns the request for points of a tree that are not known yet.
func (h *Histories) Missing(tree scheduling.TreeName) *actorpb.PoolHistoryRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tree(tree)
	return &actorpb.PoolHistoryRequest{Tree: string(tree), SecondsAfter: t.second, MinutesAfter: t.minute}
}

// Answer returns the points after a given time, of one pool or of all pools of a tree: the oldest
// first, and as many as fit into a message.
func (h *Histories) Answer(m *actorpb.PoolHistoryRequest) *actorpb.PoolHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &actorpb.PoolHistory{}
	t := h.trees[scheduling.TreeName(m.GetTree())]
	if t == nil {
		return out
	}
	asked := t.pools
	if m.GetPool() != "" {
		asked = map[scheduling.PoolName]history{}
		if of, ok := t.pools[scheduling.PoolName(m.GetPool())]; ok {
			asked[scheduling.PoolName(m.GetPool())] = of
		}
	}
	out.SecondsNewest, out.MinutesNewest = t.second, t.minute
	room := int64(maxPoints / max(len(asked), 1))
	minutes := span(m.GetMinutesAfter(), t.minute, KeptMinutes, max(room/2, 1))
	seconds := span(m.GetSecondsAfter(), t.second, KeptSeconds, max(room/2, room-(minutes.until-minutes.after), 1))
	out.MinutesUntil, out.SecondsUntil = minutes.until, seconds.until
	for name, of := range asked {
		out.Pools = append(out.Pools, &actorpb.PoolPoints{Pool: string(name), PoolId: uint64(of.id), Seconds: seconds.of(of.seconds), Minutes: minutes.of(of.minutes)})
	}
	return out
}

// interval is the times in (after, until].
type interval struct{ after, until int64 }

func (i interval) has(at int64) bool { return at > i.after && at <= i.until }

// span returns the kept times that follow the given time, the oldest first. `room` bounds their
// number.
func span(after, newest, kept, room int64) interval {
	after = min(max(after, newest-kept), newest)
	return interval{after, min(after+room, newest)}
}

func (i interval) of(r ring) *actorpb.Points {
	out := &actorpb.Points{}
	for at := i.after + 1; at <= i.until; at++ {
		if p, ok := r.at(at); ok {
			out.At = append(out.At, at)
			out.FairShare, out.UsageShare = append(out.FairShare, p.FairShare), append(out.UsageShare, p.UsageShare)
			out.DemandShare, out.Volume = append(out.DemandShare, p.DemandShare), append(out.Volume, p.Volume)
		}
	}
	return out
}

// Follow copies points of the leader's history of a tree, and reports whether the leader has more.
func (h *Histories) Follow(tree scheduling.TreeName, m *actorpb.PoolHistory) (more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.GetSecondsNewest() == 0 {
		// The leader has just started and has no points yet.
		return false
	}
	t := h.tree(tree)
	ids := make(map[scheduling.PoolName]scheduling.PoolID, len(m.GetPools()))
	for _, p := range m.GetPools() {
		ids[scheduling.PoolName(p.GetPool())] = scheduling.PoolID(p.GetPoolId())
	}
	t.keep(ids)
	for _, p := range m.GetPools() {
		of := t.pools[scheduling.PoolName(p.GetPool())]
		follow(of.seconds, p.GetSeconds())
		follow(of.minutes, p.GetMinutes())
	}
	t.second, t.minute, t.gap = m.GetSecondsUntil(), m.GetMinutesUntil(), nil
	return t.second < m.GetSecondsNewest() || t.minute < m.GetMinutesNewest()
}

// follow stores points.
func follow(r ring, points *actorpb.Points) { each(points, r.put) }

// each calls `keep` with every point, except for invalid times and incomplete points.
func each(points *actorpb.Points, keep func(at int64, p Point)) {
	whole := min(len(points.GetAt()), len(points.GetFairShare()), len(points.GetUsageShare()), len(points.GetDemandShare()), len(points.GetVolume()))
	for i, at := range points.GetAt()[:whole] {
		if at >= 0 {
			keep(at, Point{points.GetFairShare()[i], points.GetUsageShare()[i], points.GetDemandShare()[i], points.GetVolume()[i]})
		}
	}
}
