package actors

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"weir/raftstore"
)

// journey is a log that never ends, until it is gone.
type journey struct {
	index uint64
	lost  error
}

func (j *journey) next(context.Context) (raftstore.Batch, error) {
	if j.lost != nil {
		return raftstore.Batch{}, j.lost
	}
	j.index++
	return raftstore.Batch{Index: j.index}, nil
}

func TestFollowersDoNotRunAhead(t *testing.T) {
	gone := errors.New("no longer kept")
	for name, test := range map[string]struct {
		lost error
		stop bool
		want error
	}{
		"of an actor that goes on":               {},
		"of an actor that finds its log cut off": {lost: gone, want: gone},
		"and end with the store":                 {lost: raftstore.ErrClosed},
		"and end while they wait":                {stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var sent []batch
				var last error
				log := new(journey)
				go func() { last = feed(ctx, log.next, func(b batch) { sent = append(sent, b) }) }()
				synctest.Wait()
				if len(sent) != maxAhead {
					t.Fatalf("%d entries were sent to an actor that deals with none, want %d", len(sent), maxAhead)
				}
				if log.lost = test.lost; test.stop {
					cancel()
				}
				for _, b := range slices.Clone(sent)[:10] {
					b.done()
				}
				synctest.Wait()
				want := maxAhead + 10
				if test.lost != nil || test.stop {
					want = maxAhead
				}
				if len(sent) != want || !errors.Is(last, test.want) {
					t.Errorf("%d entries were sent and %v, want %d and %v", len(sent), last, want, test.want)
				}
				for i, b := range sent {
					if b.Index != uint64(i+1) {
						t.Fatalf("entry %d was sent as number %d", b.Index, i+1)
					}
				}
			})
		})
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress()
		if err := p.wait(t.Context(), 0); err != nil {
			t.Error(err)
		}
		waits := make(chan error, 1)
		go func() { waits <- p.wait(t.Context(), 7) }()
		p.reach(6)
		p.reach(5)
		synctest.Wait()
		if len(waits) != 0 {
			t.Error("done before index 7")
		}
		p.reach(8)
		synctest.Wait()
		if len(waits) != 1 || <-waits != nil {
			t.Error("not done at index 8")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, 9); !errors.Is(err, context.Canceled) {
			t.Errorf("given up with %v", err)
		}
	})
}
