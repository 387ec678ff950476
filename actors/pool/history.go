package pool

import (
	"sync"
	"time"

	"weir/messages/actorpb"
	"weir/scheduling"
)

// What is kept of each pool: seconds of an hour and minutes of a day.
const (
	KeptSeconds = 3600
	KeptMinutes = 24 * 60
)

// maxPoints bounds the points in one answer: some 600 KiB of it.
const maxPoints = 20_000

// Histories is what pools were, tree by tree. The leader records them; the other
// replicas follow, so that one of them can go on when it leads, and ask the others for
// what it has missed. It takes at most 88 KB a pool. A pool that is gone has no history.
type Histories struct {
	mu    sync.Mutex
	trees map[scheduling.TreeName]*treeHistory
}

// NewHistories returns what knows of no tree.
func NewHistories() *Histories { return &Histories{trees: map[scheduling.TreeName]*treeHistory{}} }

// treeHistory is of the pools of a tree. Every pool has points of the same times,
// unless it was made later.
type treeHistory struct {
	// second and minute are the newest that are known.
	second, minute int64
	pools          map[scheduling.PoolName]history
	// gap is what is to be asked of others; nil: nothing.
	gap *gap
}

// history is of one pool, whatever it is called; the id 0 is of one that goes by its
// name.
type history struct {
	id               scheduling.PoolID
	seconds, minutes ring
}

// Sample is what a pool is at a moment.
type Sample struct {
	ID scheduling.PoolID
	Point
}

// Keep forgets all trees but these.
func (h *Histories) Keep(trees []scheduling.TreeName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := make(map[scheduling.TreeName]*treeHistory, len(trees))
	for _, name := range trees {
		if t := h.trees[name]; t != nil {
			kept[name] = t
		}
	}
	h.trees = kept
}

// Due reports whether there is no point of the tree for the second of now yet.
func (h *Histories) Due(tree scheduling.TreeName, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.trees[tree]
	return t == nil || t.second != now.Unix()
}

// Record takes what all pools of a tree are now: their point of this second. When a
// minute is over, its point is the mean of its seconds.
func (h *Histories) Record(tree scheduling.TreeName, now time.Time, pools map[scheduling.PoolName]Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tree(tree)
	second := now.Unix()
	t.notice(second)
	if minute := second/60 - 1; minute > t.minute || minute < t.minute-1 {
		for _, of := range t.pools {
			// The minutes since the last one may have been several.
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

// keep has the histories of these pools, by the names that they have now: a new one
// of a pool that was not known.
func (t *treeHistory) keep(pools map[scheduling.PoolName]scheduling.PoolID) {
	known := make(map[scheduling.PoolID]history, len(t.pools))
	for _, of := range t.pools {
		known[of.id] = of
	}
	kept := make(map[scheduling.PoolName]history, len(pools))
	for name, id := range pools {
		of, ok := t.pools[name]
		if ok && of.id != id && of.id != 0 {
			ok = false
		}
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

// Missing asks for what is not known of a tree yet.
func (h *Histories) Missing(tree scheduling.TreeName) *actorpb.PoolHistoryRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tree(tree)
	return &actorpb.PoolHistoryRequest{Tree: string(tree), SecondsAfter: t.second, MinutesAfter: t.minute}
}

// Answer returns what is known of the pools of a tree, or of one, after some time:
// the oldest first, as much as fits a message.
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

// span is the first so many times after one that are kept.
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

// Follow takes over what the leader knows of a tree, and reports whether there is
// more.
func (h *Histories) Follow(tree scheduling.TreeName, m *actorpb.PoolHistory) (more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.GetSecondsNewest() == 0 {
		// The leader has just begun, and knows less.
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

// follow keeps points.
func follow(r ring, points *actorpb.Points) { each(points, r.put) }

// each calls keep with each point, but for those of no time and those that are not whole.
func each(points *actorpb.Points, keep func(at int64, p Point)) {
	whole := min(len(points.GetAt()), len(points.GetFairShare()), len(points.GetUsageShare()), len(points.GetDemandShare()), len(points.GetVolume()))
	for i, at := range points.GetAt()[:whole] {
		if at >= 0 {
			keep(at, Point{points.GetFairShare()[i], points.GetUsageShare()[i], points.GetDemandShare()[i], points.GetVolume()[i]})
		}
	}
}
