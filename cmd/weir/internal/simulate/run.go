package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/actors/scheduler"
	"weir/scheduling/engine"
	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// Run carries out a simulation. progress, if not nil, is called repeatedly with the simulated
// time that has passed.
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

// run is a simulation in progress.
type run struct {
	*world
	// due is the time of the next fair share update.
	due time.Duration
	// beatDue is the time of the next heartbeat of all nodes; beatEvery is the present period.
	beatDue, beatEvery time.Duration
	// hungry says that some pool or operation is below its fair share and may become starving, so
	// updates must be frequent. pressing says that each heartbeat may preempt.
	hungry, pressing bool
	sampleAt         time.Duration
	// checkpoints says that volumes are checkpointed for the next leader.
	checkpoints bool
	keptAt      time.Duration
	series      series
	told        time.Time
}

// all goes from moment to moment until the end.
func (r *run) all(ctx context.Context, progress func(time.Duration)) error {
	r.series.pools = r.meter.ordered[1:]
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
	r.meter.judge(r.now, r.updated, r.hasRoom)
	r.meter.midnight(r.now)
	if n := len(r.series.samples); r.series.samples[n-1].at < r.now {
		r.series.sample(r.world)
	}
	if progress != nil {
		progress(r.now)
	}
	return nil
}

// progressPeriod is the least time between two calls of progress.
const progressPeriod = 100 * time.Millisecond

// nextMoment is the next time at which something is due.
func (r *run) nextMoment() time.Duration {
	next := min(r.file.Duration, r.sampleAt, r.meter.today+day)
	if r.tree == nil {
		return min(next, r.leaderless)
	}
	if r.file.Estimates {
		next = min(next, r.estimates.due)
	}
	if at, ok := r.queue.next(); ok {
		next = min(next, at)
	}
	next = min(next, r.due)
	if r.stale {
		next = min(next, max(r.updated+r.file.Pace.Update, r.now))
	}
	if r.pressing {
		next = min(next, r.beatDue)
	}
	return max(next, r.now)
}

// moment does all that is due now. Without a leader no event is handled and nothing is planned.
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
		if err := r.queue.take()(); err != nil {
			return err
		}
	}
	if r.tree != nil {
		if err := r.decide(); err != nil {
			return err
		}
		if r.file.Estimates {
			if err := r.ask(); err != nil {
				return err
			}
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

// decide recomputes fair shares and hands out resources, each if it is due.
func (r *run) decide() error {
	if r.now >= r.due || r.stale && r.now >= r.updated+r.file.Pace.Update {
		if err := r.update(); err != nil {
			return err
		}
	}
	if !r.pressing || r.now < r.beatDue {
		return r.plan()
	}
	before := r.planned
	r.tree.OfferAll()
	if err := r.plan(); err != nil {
		return err
	}
	// If all nodes sent heartbeats and nothing followed, the next round is unlikely to differ:
	// wait longer.
	r.beatEvery = min(2*r.beatEvery, idleRounds*r.file.Heartbeat)
	if r.planned > before {
		r.beatEvery = r.file.Heartbeat
	}
	r.beatDue = r.now + r.beatEvery
	return nil
}

// idleRounds is the longest time between two rounds of heartbeats that cause nothing, in heartbeat
// periods.
const idleRounds = 12

// update recomputes the fair shares, and decides when to do so next.
func (r *run) update() error {
	r.meter.judge(r.now, r.updated, r.hasRoom)
	r.stale = false
	if err := r.tree.Tick(r.time()); err != nil {
		return err
	}
	r.updated = r.now
	pools := r.tree.Pools()
	r.meter.found(pools)
	if r.checkpoints && r.now >= r.keptAt+scheduler.CheckpointEvery {
		if err := r.keep(); err != nil {
			return err
		}
		r.stale = false
	}
	starving, gracefully := r.tree.Pressing()
	pressing := starving || gracefully && displeased(pools)
	if pressing && !r.pressing {
		r.beatEvery = r.file.Heartbeat
		r.beatDue = min(max(r.beatDue, r.now), r.now+r.beatEvery)
	}
	r.hungry, r.pressing = r.tree.Below(), pressing
	r.due = r.now + r.step(pools)
	return nil
}

// displeased reports whether any pool has noticeably less or more than its fair share.
func displeased(pools []engine.PoolView) bool {
	return slices.ContainsFunc(pools, func(p engine.PoolView) bool {
		return p.Shares.DemandShare.MaxComponent() > 0 &&
			(p.Shares.Attributes.PoolSatisfaction < 1-surplus || p.Parent != "" && !p.Shares.UsageShare.Within(p.Shares.FairShare, surplus))
	})
}

// surplus is the tolerated deviation: the part of a fair share that is missing, or the part of
// the cluster that a pool has beyond its share.
const surplus = 0.01

// step is how long fair shares may stay as they are if nothing happens: until volumes have
// changed by the tolerance. A pool that spends its volume as fast as it flows in is updated at
// least twice per smoothing period.
func (r *run) step(pools []engine.PoolView) time.Duration {
	pace, settings := r.file.Pace, r.file.Pools.Settings()
	next := pace.Longest
	if r.hungry {
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
		if rate := math.Abs(g.SpecifiedFlowRatio - granted); rate > resource.Epsilon {
			next = min(next, toDuration(pace.Tolerance*g.RatioVolume/rate))
		}
	}
	return max(next, pace.Update)
}
