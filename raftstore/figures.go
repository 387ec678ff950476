package raftstore

import (
	"sync"
	"time"
)

// batchBounds are the upper bounds of the buckets in which BatchStats counts entries: powers of
// four, the default batch limit, and twice the default batch limit.
var batchBounds = [...]int{1, 4, 16, 64, 256, 512, 1024}

// BatchStats are figures about log entries that this replica proposed.
type BatchStats struct {
	// Entries and Commands are totals.
	Entries, Commands uint64
	// UpTo[n] counts the entries of at most n commands.
	UpTo map[int]uint64
}

// batchSizes counts entries by size.
type batchSizes struct {
	mu                sync.Mutex
	entries, commands uint64
	upTo              [len(batchBounds)]uint64
}

func (b *batchSizes) count(calls []*call) {
	commands := 0
	for _, c := range calls {
		commands += c.commands
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries++
	b.commands += uint64(commands)
	for i, bound := range batchBounds {
		if commands <= bound {
			b.upTo[i]++
		}
	}
}

func (b *batcher) stats() BatchStats {
	s := &b.sizes
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := BatchStats{Entries: s.entries, Commands: s.commands, UpTo: make(map[int]uint64, len(batchBounds))}
	for i, bound := range batchBounds {
		stats.UpTo[bound] = s.upTo[i]
	}
	return stats
}

// recentPeriod is the minimum time for which a slow write is remembered.
const recentPeriod = time.Minute

// recentWorst holds the longest write of the current period and of the one before.
type recentWorst struct {
	began           time.Time
	current, before time.Duration
}

// turn begins a new period if the current one is over.
func (r *recentWorst) turn(now time.Time) {
	age := now.Sub(r.began)
	if age < recentPeriod {
		return
	}
	r.before = r.current
	if age >= 2*recentPeriod {
		r.before = 0
	}
	r.began, r.current = now, 0
}

func (r *recentWorst) add(now time.Time, took time.Duration) {
	r.turn(now)
	r.current = max(r.current, took)
}

func (r *recentWorst) worst(now time.Time) time.Duration {
	r.turn(now)
	return max(r.current, r.before)
}
