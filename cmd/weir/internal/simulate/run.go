package simulate

import (
	"context"
	"fmt"
	"time"

	"weir/scheduling/engine"
	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// Run carries out a simulation. progress, if there is one, is told now and then how much
// of the time has passed.
func Run(ctx context.Context, f *File, progress func(now time.Duration)) (*Result, error) {
	begun := time.Now()
	w, err := newWorld(f)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	r := run{world: w, checkpoints: f.losesLeaders()}
	if err := r.all(ctx, progress); err != nil {
		return nil, fmt.Errorf("simulate: after %v: %w", w.now, err)
	}
	return r.result(time.Since(begun)), nil
}

// run is a simulation on its way.
type run struct {
	*world
	// updated is the time of the last fair share update, due that of the next one.
	updated, due time.Duration
	// beatDue is when nodes are heard next.
	beatDue time.Duration
	// restless: somebody has less, or more, than is owed, so that each heartbeat
	// counts.
	restless bool
	sampleAt time.Duration
	// checkpoints: volumes are kept as the leader keeps them, for the next one.
	checkpoints bool
	keptAt      time.Duration
	series      series
	told        time.Time
}

// all goes from moment to moment until the end.
func (r *run) all(ctx context.Context, progress func(time.Duration)) error {
	r.series.begin(r.world)
	for {
		if err := r.moment(); err != nil {
			return err
		}
		if r.now >= r.file.Duration {
			break
		}
		r.now = r.nextMoment()
		if r.told.IsZero() || r.events&1023 == 0 || time.Since(r.told) > progressPeriod {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil && time.Since(r.told) > progressPeriod {
				progress(r.now)
				r.told = time.Now()
			}
		}
	}
	r.meter.judge(r.now, r.updated)
	r.meter.midnight(r.now)
	if n := len(r.series.samples); r.series.samples[n-1].at < r.now {
		r.series.sample(r.world)
	}
	if progress != nil {
		progress(r.now)
	}
	return nil
}

// progressPeriod is the least time between two words on progress.
const progressPeriod = 100 * time.Millisecond

// nextMoment is the next time at which anything is to be done.
func (r *run) nextMoment() time.Duration {
	next := min(r.file.Duration, r.sampleAt, r.meter.today+day)
	if r.tree == nil {
		return min(next, r.leaderless)
	}
	if at, ok := r.queue.next(); ok {
		next = min(next, at)
	}
	next = min(next, r.due)
	if r.stale {
		next = min(next, max(r.updated+r.file.Pace.Update, r.now))
	}
	if r.restless {
		next = min(next, r.beatDue)
	}
	return max(next, r.now)
}

// moment does what is due now. Without a leader nothing is heard or decided.
func (r *run) moment() error {
	if r.tree == nil && r.now >= r.leaderless {
		if err := r.succeed(); err != nil {
			return err
		}
	}
	for r.tree != nil {
		at, ok := r.queue.next()
		if !ok || at > r.now {
			break
		}
		r.events++
		if err := r.queue.take().happen(r.world); err != nil {
			return err
		}
	}
	if r.tree != nil {
		if err := r.decide(); err != nil {
			return err
		}
	}
	if r.now >= r.sampleAt {
		r.series.sample(r.world)
		r.sampleAt = r.now - r.now%r.file.Sample + r.file.Sample
	}
	if r.now >= r.meter.today+day {
		r.meter.midnight(r.now)
	}
	return nil
}

// decide finds fair shares and hands out resources, where either is due.
func (r *run) decide() error {
	if r.now >= r.due || r.stale && r.now >= r.updated+r.file.Pace.Update {
		if err := r.update(); err != nil {
			return err
		}
	}
	if r.restless && r.now >= r.beatDue {
		r.beatDue = r.now + r.file.Heartbeat
		r.tree.OfferAll()
	}
	return r.plan()
}

// update finds the fair shares anew, and when they have to be found next.
func (r *run) update() error {
	r.meter.judge(r.now, r.updated)
	r.stale = false
	if err := r.tree.Tick(r.time()); err != nil {
		return err
	}
	r.updated = r.now
	pools := r.tree.Pools()
	r.meter.found(pools)
	if r.checkpoints && r.now >= r.keptAt+checkpointEvery {
		if err := r.keep(); err != nil {
			return err
		}
		r.stale = false
	}
	was := r.restless
	r.restless = restless(pools)
	if r.restless && !was {
		r.beatDue = min(max(r.beatDue, r.now), r.now+r.file.Heartbeat)
	}
	r.due = r.now + r.step(pools)
	return nil
}

// restless reports whether somebody is below its fair share by so much that it may
// starve, or above it.
func restless(pools []engine.PoolView) bool {
	for _, p := range pools {
		a := p.Shares.Attributes
		if a.PoolSatisfaction < p.Effective.Starvation.Tolerance && p.Shares.DemandShare.MaxComponent() > 0 {
			return true
		}
		if p.Parent != "" && !p.Shares.UsageShare.Within(p.Shares.FairShare, surplus) {
			return true
		}
	}
	return false
}

// surplus is the part of the cluster that a pool may have beyond its fair share
// without anybody having to look.
const surplus = 0.01

// step is how long fair shares may stay as they are if nothing happens: until volumes
// have changed by the tolerance. A pool that lives from hand to mouth, spending what
// flows in, is looked at twice in the period in which volumes are smoothed at least.
func (r *run) step(pools []engine.PoolView) time.Duration {
	pace, settings := r.file.Pace, r.file.Pools.Settings()
	next := pace.Longest
	if r.restless {
		next = min(next, r.file.Heartbeat)
	}
	for _, p := range pools {
		g := p.Integral
		if g.Type == fairshare.NoIntegral {
			continue
		}
		granted := p.Shares.Attributes.Parts.Integral.MaxComponent()
		if smoothed := g.RatioVolume / settings.SmoothPeriod.Seconds(); granted > resource.Epsilon && smoothed <= granted*(1+resource.LargeEpsilon) {
			next = min(next, settings.SmoothPeriod/2)
		}
		if rate := abs(g.SpecifiedFlowRatio - granted); rate > resource.Epsilon {
			next = min(next, toDuration(pace.Tolerance*g.RatioVolume/rate))
		}
	}
	return max(next, pace.Update)
}
