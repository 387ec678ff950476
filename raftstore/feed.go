package raftstore

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"weir/raftstore/state"
)

// Batch holds the events of one log entry. Readers share it and must not change
// it.
type Batch struct {
	// Index is that of the log entry.
	Index  uint64
	Events []state.Event
}

// feed keeps the latest events and the applied index, and wakes goroutines that wait for a change
// of them. It never waits for a reader.
type feed struct {
	mu sync.Mutex
	// first is the oldest index at or after which every event is kept.
	first   uint64
	applied uint64
	batches []Batch
	// events is the total weight of the batches; limit bounds it.
	events int
	limit  int
	closed bool
	// wake is closed at the next change.
	wake chan struct{}
}

func newFeed(limit int) *feed { return &feed{first: 1, limit: limit, wake: make(chan struct{})} }

// publish adds the events of the entry at index, the next one in the log.
func (f *feed) publish(index uint64, events []state.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = index
	if len(events) > 0 {
		f.batches = append(f.batches, Batch{Index: index, Events: events})
		f.events += weight(events)
	}
	// The latest batch is kept, however large it is.
	for f.events > f.limit && len(f.batches) > 1 {
		f.first = f.batches[0].Index + 1
		f.events -= weight(f.batches[0].Events)
		f.batches[0] = Batch{}
		f.batches = f.batches[1:]
	}
	f.broadcast()
}

// weight returns how many events a batch counts as. An event about several jobs holds their
// records, and counts once for each job.
func weight(batch []state.Event) int {
	n := 0
	for _, event := range batch {
		jobs := 1
		switch e := event.(type) {
		case state.AllocationsStarted:
			jobs = len(e.Allocations)
		case state.StopsOrdered:
			jobs = len(e.Allocations)
		case state.AllocationsEnded:
			jobs = len(e.Ended)
		}
		n += max(jobs, 1)
	}
	return n
}

// reset forgets all events: a snapshot taken at index has replaced the state.
func (f *feed) reset(index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first, f.applied, f.batches, f.events = index+1, index, nil, 0
	f.broadcast()
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.broadcast()
}

func (f *feed) broadcast() {
	close(f.wake)
	f.wake = make(chan struct{})
}

func (f *feed) appliedIndex() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}

// waitApplied returns when the state machine has applied index.
func (f *feed) waitApplied(ctx context.Context, index uint64) error {
	for {
		f.mu.Lock()
		applied, closed, changed := f.applied, f.closed, f.wake
		f.mu.Unlock()
		switch {
		case applied >= index:
			return nil
		case closed:
			return fmt.Errorf("wait for index %d: store: %w", index, ErrClosed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for index %d, applied up to %d: %w", index, applied, context.Cause(ctx))
		}
	}
}

// next returns the first batch at or after the index `from`. If there is none yet, it returns a
// channel that is closed at the next change.
func (f *feed) next(from uint64) (batch Batch, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if from < f.first {
		return Batch{}, nil, &CompactedError{From: from, Oldest: f.first}
	}
	i := sort.Search(len(f.batches), func(i int) bool { return f.batches[i].Index >= from })
	if i < len(f.batches) {
		return f.batches[i], nil, nil
	}
	if f.closed {
		return Batch{}, nil, fmt.Errorf("watch from index %d: store: %w", from, ErrClosed)
	}
	return Batch{}, f.wake, nil
}

// Watch reads the events of the store, starting at an index. It buffers nothing: the store does not
// wait for a slow watch, which gets a *CompactedError if it falls too far behind. Only one
// goroutine may call Next.
type Watch struct {
	feed *feed
	from uint64
}

// Watch starts to read the events of every log entry at or after the index `from`, which may be one
// that is not applied yet. It returns a *CompactedError if some of the events are no longer kept:
// this replica started from a later snapshot, or newer events have replaced them.
func (s *Store) Watch(from uint64) (*Watch, error) {
	from = max(from, 1)
	if _, _, err := s.machine.feed.next(from); err != nil {
		return nil, err
	}
	return &Watch{feed: s.machine.feed, from: from}, nil
}

// Next waits for the next log entry with events and returns its events. It returns each such entry
// once, in order and without gaps. It returns a *CompactedError if this watch has fallen too far
// behind, and ErrClosed after Close of the store.
func (w *Watch) Next(ctx context.Context) (Batch, error) {
	for {
		batch, changed, err := w.feed.next(w.from)
		if err != nil {
			return Batch{}, err
		}
		if changed == nil {
			w.from = batch.Index + 1
			return batch, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{}, fmt.Errorf("watch from index %d: %w", w.from, context.Cause(ctx))
		}
	}
}

// Follow calls the function `each` for every log entry with events at or after the index `from`, in
// order and without gaps, until ctx is done or the store is closed, and returns the reason. It
// returns a *CompactedError as Watch and Next do.
func (s *Store) Follow(ctx context.Context, from uint64, each func(Batch)) error {
	watch, err := s.Watch(from)
	if err != nil {
		return err
	}
	for {
		batch, err := watch.Next(ctx)
		if err != nil {
			return err
		}
		each(batch)
	}
}
