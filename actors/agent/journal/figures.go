package journal

import (
	"maps"
	"sync"
	"time"
)

// Stats is what a journal has written since it was opened.
type Stats struct {
	Records, Bytes uint64
	// Rewrites counts how often the file was rewritten because most of it was about jobs that
	// are over.
	Rewrites uint64
	// Syncs counts batches by how long the disk took to sync them: each key is an upper bound,
	// and its value counts the batches that took no longer.
	Syncs     map[time.Duration]uint64
	SyncCount uint64
	SyncTotal time.Duration
}

// syncBounds are the keys of Stats.Syncs.
var syncBounds = []time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
}

// figures are the figures that the writer shares with other goroutines.
type figures struct {
	mu    sync.Mutex
	stats Stats
	full  error
}

func (f *figures) wrote(records, bytes int, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Records += uint64(records)
	f.stats.Bytes += uint64(bytes)
	f.stats.SyncCount++
	f.stats.SyncTotal += took
	if f.stats.Syncs == nil {
		f.stats.Syncs = map[time.Duration]uint64{}
	}
	for _, bound := range syncBounds {
		if took <= bound {
			f.stats.Syncs[bound]++
		}
	}
}

func (f *figures) rewrote() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Rewrites++
}

func (f *figures) setFull(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = err
}

// Stats returns a snapshot.
func (j *Journal) Stats() Stats {
	j.figures.mu.Lock()
	defer j.figures.mu.Unlock()
	stats := j.figures.stats
	stats.Syncs = maps.Clone(stats.Syncs)
	return stats
}

// Full returns why records wait for disk space; nil: none waits.
func (j *Journal) Full() error {
	j.figures.mu.Lock()
	defer j.figures.mu.Unlock()
	return j.figures.full
}
