package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestSharedRequests (T5): whoever asks gets the answer to a request that began after it asked, however many ask,
// and there are at most two requests for each moment at which somebody asked.
func TestSharedRequests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		asks := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 60).Draw(rt, "asked after (ms)")
		takes := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 5).Draw(rt, "takes (ms)")
		synctest.Test(t, func(t *testing.T) {
			s := shared[time.Time]{ctx: t.Context()}
			var made atomic.Int64
			request := func(context.Context) (time.Time, error) {
				began := time.Now()
				time.Sleep(time.Duration(takes[int(made.Add(1))%len(takes)]) * time.Millisecond)
				return began, nil
			}
			moments := map[time.Time]bool{}
			var all sync.WaitGroup
			for _, after := range asks {
				time.Sleep(time.Duration(after) * time.Millisecond)
				asked := time.Now()
				moments[asked] = true
				all.Go(func() {
					began, err := s.get(t.Context(), "", request)
					if err != nil || began.Before(asked) {
						rt.Errorf("asked at %v, got the answer to a request of %v, %v", asked, began, err)
					}
				})
			}
			all.Wait()
			if int(made.Load()) > 2*len(moments) {
				rt.Errorf("%d requests for those who asked at %d moments", made.Load(), len(moments))
			}
		})
	})
}

// TestSharedRequestHangs (T5): who asks while a request hangs does not wait for it. Who waits for it gets the answer
// of a later one, or an error that says that no leader answers when its own time is over.
func TestSharedRequestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shared[int]{ctx: t.Context()}
		var made atomic.Int64
		request := func(ctx context.Context) (int, error) {
			n := int(made.Add(1))
			if n == 1 {
				<-ctx.Done()
				return 0, fmt.Errorf("hung: %w", ctx.Err())
			}
			return n, nil
		}
		var all sync.WaitGroup
		began := time.Now()
		all.Go(func() {
			if n, err := s.get(t.Context(), "", request); n != 3 || err != nil || time.Since(began) < flightTime {
				t.Errorf("the first got %d, %v after %v, want the answer of the third request", n, err, time.Since(began))
			}
		})
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), flightTime/2)
			defer cancel()
			time.Sleep(time.Millisecond)
			if _, err := s.get(ctx, "another", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }); !errors.Is(err, ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("one whose time is over got %v", err)
			}
		})
		time.Sleep(2 * time.Millisecond)
		asked := time.Now()
		if n, err := s.get(t.Context(), "", request); n != 2 || err != nil || time.Since(asked) > flightGap {
			t.Errorf("the second got %d, %v after %v, want the answer of the second request", n, err, time.Since(asked))
		}
		all.Wait()
		time.Sleep(flightTime)
		synctest.Wait()
		if len(s.next) != 0 {
			t.Errorf("%d kinds of requests are kept", len(s.next))
		}
	})
}
