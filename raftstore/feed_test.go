package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"weir/messages/statepb"
	"weir/raftstore/state"
)

func testEvents(index uint64, n int) []state.Event {
	var events []state.Event
	for range n {
		events = append(events, state.TermBegan{Term: index})
	}
	return events
}

// TestEventsOfManyJobsWeighMore keeps few of those that tell of many jobs: their records are
// what takes memory.
func TestEventsOfManyJobsWeighMore(t *testing.T) {
	for story, test := range map[string]struct {
		event state.Event
		want  int
	}{
		"of none":           {state.TermBegan{}, 10},
		"jobs that started": {state.AllocationsStarted{Allocations: make([]*statepb.Allocation, 3)}, 3},
		"jobs that leave":   {state.StopsOrdered{Allocations: make([]*statepb.Allocation, 4)}, 2},
		"jobs that ended":   {state.AllocationsEnded{Ended: make([]state.Ended, 5)}, 2},
		"more than fit":     {state.AllocationsEnded{Ended: make([]state.Ended, 50)}, 1},
	} {
		t.Run(story, func(t *testing.T) {
			feed := newFeed(10)
			for index := range uint64(100) {
				feed.publish(index+1, []state.Event{test.event})
			}
			if got := len(feed.batches); got != test.want {
				t.Errorf("%d are kept, want %d", got, test.want)
			}
		})
	}
}

// TestWatchHasNoGaps publishes, compacts and reads at random: a watch returns the
// next entry with events, or says that it is compacted exactly when that entry
// is gone.
func TestWatchHasNoGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		feed := newFeed(rapid.IntRange(1, 12).Draw(t, "limit"))
		s := &Store{machine: &machine{feed: feed}}
		w, err := s.Watch(0)
		if err != nil {
			t.Fatal(err)
		}
		var published []uint64 // entries with events that w has not returned
		applied, lost := uint64(0), false
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				applied++
				events := testEvents(applied, rapid.IntRange(0, 5).Draw(t, "events"))
				feed.publish(applied, events)
				if len(events) > 0 {
					published = append(published, applied)
				}
			},
			"install snapshot": func(t *rapid.T) {
				applied += rapid.Uint64Range(0, 3).Draw(t, "skipped")
				lost = lost || w.from <= applied
				feed.reset(applied)
				published = nil
			},
			"read": func(t *rapid.T) {
				ctx, cancel := context.WithCancel(context.Background())
				cancel() // do not wait
				batch, err := w.Next(ctx)
				var compacted *CompactedError
				switch {
				case errors.As(err, &compacted):
					if compacted.Oldest <= w.from || !lost && len(published) > 0 && compacted.Oldest <= published[0] {
						t.Fatalf("compacted to %d, but %v is to be read from %d", compacted.Oldest, published, w.from)
					}
					if w, err = s.Watch(compacted.Oldest); err != nil {
						t.Fatalf("watch from the oldest kept: %v", err)
					}
					for len(published) > 0 && published[0] < compacted.Oldest {
						published = published[1:]
					}
					lost = false
				case err != nil:
					if len(published) > 0 {
						t.Fatalf("%v, but %v is to be read", err, published)
					}
				case lost || len(published) == 0 || batch.Index != published[0] || len(batch.Events) == 0:
					t.Fatalf("got the %d events of %d, lost %v, want those of %v", len(batch.Events), batch.Index, lost, published)
				default:
					published = published[1:]
				}
			},
			"": func(t *rapid.T) {
				if feed.events > feed.limit && len(feed.batches) > 1 {
					t.Fatalf("%d events are kept in %d entries, the limit is %d", feed.events, len(feed.batches), feed.limit)
				}
			},
		})
	})
}

func TestWatchWaits(t *testing.T) {
	feed := newFeed(100)
	s := &Store{machine: &machine{feed: feed}}
	const readers, entries = 4, 200
	var wg sync.WaitGroup
	for range readers {
		w, err := s.Watch(1)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for want := uint64(1); want <= entries; want++ {
				batch, err := w.Next(testContext(t))
				var compacted *CompactedError
				if errors.As(err, &compacted) {
					return // fell behind and was told
				}
				if err != nil || batch.Index != want {
					t.Errorf("got entry %d, %v, want %d", batch.Index, err, want)
					return
				}
			}
		})
	}
	for i := uint64(1); i <= entries; i++ {
		feed.publish(i, testEvents(i, 1))
	}
	wg.Wait()
}

func TestWatchEnds(t *testing.T) {
	tests := map[string]func(*Watch, *feed){
		"when the store is closed": func(_ *Watch, f *feed) { f.close() },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			feed := newFeed(10)
			w, err := (&Store{machine: &machine{feed: feed}}).Watch(5)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() {
				_, err := w.Next(testContext(t))
				done <- err
			}()
			end(w, feed)
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
}

func TestWaitApplied(t *testing.T) {
	feed := newFeed(10)
	s := &Store{machine: &machine{feed: feed}}
	done := make(chan error)
	go func() { done <- s.WaitApplied(testContext(t), 2) }()
	feed.publish(1, nil)
	feed.publish(2, nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("enough"))
	if err := s.WaitApplied(ctx, 3); err == nil || err.Error() != "wait for index 3, applied up to 2: enough" {
		t.Errorf("got %v", err)
	}
	feed.close()
	if err := s.WaitApplied(testContext(t), 3); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// TestFollowHandsOverEachEntry from where it is told to begin, and says why it ended.
func TestFollowHandsOverEachEntry(t *testing.T) {
	feed := newFeed(100)
	s := &Store{machine: &machine{feed: feed}}
	for index := range uint64(3) {
		feed.publish(index+1, testEvents(index+1, 1))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errEnough := errors.New("enough")
	var got []uint64
	err := s.Follow(ctx, 2, func(b Batch) {
		if got = append(got, b.Index); len(got) == 2 {
			feed.publish(4, testEvents(4, 1))
		}
		if len(got) == 3 {
			cancel(errEnough)
		}
	})
	if !errors.Is(err, errEnough) || fmt.Sprint(got) != "[2 3 4]" {
		t.Errorf("followed %v, then %v", got, err)
	}
	feed.reset(9)
	var gap *CompactedError
	if err := s.Follow(t.Context(), 5, func(Batch) { t.Error("an entry that is not kept") }); !errors.As(err, &gap) || gap.Oldest != 10 {
		t.Errorf("followed over a gap: %v", err)
	}
}
