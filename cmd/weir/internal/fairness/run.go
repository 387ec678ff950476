package fairness

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"weir/cmd/weir/internal/simulate"
)

// Outcome is the outcome of a scenario.
type Outcome struct {
	Scenario
	Result   *simulate.Result
	Breaches []Breach
}

// seedsApart is the distance between the first scenario seeds of two successive seeds.
const seedsApart = 100_000

// Seeds derives from one seed the seeds of that many scenarios.
func Seeds(seed uint64, runs int) []uint64 {
	all := make([]uint64, runs)
	for i := range all {
		all[i] = seed*seedsApart + uint64(i)
	}
	return all
}

// Run runs a scenario.
func Run(ctx context.Context, seed uint64) (Outcome, error) {
	s, err := New(seed)
	if err != nil {
		return Outcome{}, err
	}
	result, err := simulate.Run(ctx, s.File, nil)
	if err != nil {
		return Outcome{Scenario: s}, fmt.Errorf("scenario %d: %w", seed, err)
	}
	return Outcome{s, result, Judge(s.File, result.Pools)}, nil
}

// RunAll runs scenarios, as many at once as GOMAXPROCS, and returns their outcomes in order.
// done, if not nil, is called with the number of finished scenarios.
func RunAll(ctx context.Context, seeds []uint64, done func(n int)) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]Outcome, len(seeds))
	var mu sync.Mutex
	var next atomic.Int64
	finished := 0
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(seeds) && ctx.Err() == nil; i = next.Add(1) - 1 {
				o, err := Run(ctx, seeds[i])
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				out[i] = o
				finished++
				if done != nil {
					done(finished)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return out, context.Cause(ctx)
}
