package fairness

import (
	"fmt"
	"time"

	"weir/cmd/weir/internal/simulate"
	"weir/scheduling"
)

// The promises.
const (
	// LeastShare is the least part of its fair share that an always hungry pool gets.
	LeastShare = 0.9
	// LeastGuarantee is the least part of Outcome.Asked that a pool gets.
	LeastGuarantee = 0.97
	// MostLost is the greatest part of a cluster's usage that may be lost by preemption.
	MostLost = 0.4
	// MostLostOfAll is the greatest part of the usage of many clusters, at least Many, that may
	// be lost by preemption.
	MostLostOfAll = 0.1
	Many          = 30
)

// Breach is a promise that was not kept.
type Breach struct {
	// Pool is empty for a breach of the whole cluster.
	Pool    scheduling.PoolName
	Problem string
}

// Judge compares the outcome of a scenario with the promises.
func Judge(f *simulate.File, pools []simulate.Pool) []Breach {
	var out []Breach
	var lost, used float64
	for _, p := range pools {
		fault := func(format string, args ...any) {
			out = append(out, Breach{p.Name, fmt.Sprintf(format, args...)})
		}
		o := p.Outcome
		if ratio, ok := shareRatio(o); ok && ratio < LeastShare {
			fault("got %.2f of its fair share: %.4f of the cluster instead of %.4f; its largest job is %.4f", o.Got/o.Fair, o.Got, o.Fair, o.LargestJob)
		}
		if ratio, ok := guaranteeRatio(o); ok && ratio < LeastGuarantee {
			fault("got %.3f of the guaranteed share that it demanded", ratio)
		}
		if waits(o) && o.FirstWait > o.Patience {
			fault("waited %v for its first job, the limit is %v; its fair share was %.4f, its largest job %.4f", o.FirstWait, o.Patience, o.FairMeanwhile, o.LargestJob)
		}
		if most := repair(f, p); o.OverLimits > most {
			fault("exceeded its resource_limits for %v, at most %v is allowed", o.OverLimits, most)
		}
		if o.OutOfOrder > 0 {
			fault("started %d jobs while an earlier operation had a pending job that needs no more", o.OutOfOrder)
		}
		if o.Leaf {
			used += o.UsedSeconds
			if holdsOne(o) {
				lost += o.LostSeconds
			}
		}
	}
	if used > 0 && lost/used > MostLost {
		out = append(out, Breach{"", fmt.Sprintf("%.2f of all usage was lost by preemption, not counting losses of pools whose fair share is less than one job", lost/used)})
	}
	return out
}

// JudgeAll checks the promise that holds only for many clusters together.
func JudgeAll(outcomes []Outcome) []Breach {
	rows := Table(outcomes)
	all := rows[len(rows)-1]
	if all.Scenarios < Many || all.Lost <= MostLostOfAll {
		return nil
	}
	return []Breach{{Problem: fmt.Sprintf("%.3f of all usage in %d clusters was lost by preemption, the limit is %v", all.Lost, all.Scenarios, MostLostOfAll)}}
}

// shareRatio returns what an always hungry pool got, plus half a job, as a part of its fair share;
// false if the pool is not always hungry, or its fair share is less than half a job.
func shareRatio(o simulate.Outcome) (float64, bool) {
	if !o.Leaf || !o.Hungry || o.Window <= 0 || o.Fair < o.LargestJob/2 || o.Fair == 0 {
		return 0, false
	}
	return (o.Got + o.LargestJob/2) / o.Fair, true
}

// guaranteeRatio returns how much the pool got of the part of its guarantees that it asked for;
// false if it asked for nothing, or for less than one job for ten minutes.
func guaranteeRatio(o simulate.Outcome) (float64, bool) {
	if o.Asked == 0 || o.Asked < o.LargestJob*(10*time.Minute).Seconds() {
		return 0, false
	}
	return o.Had / o.Asked, true
}

// holdsOne reports whether the pool's largest job fits in its fair share. Other pools take
// turns: each of their jobs exceeds the share, and may be preempted for another pool that takes
// turns.
func holdsOne(o simulate.Outcome) bool {
	return o.Window <= 0 || o.Fair >= o.LargestJob
}

// waits reports whether the pool had to wait for its first job although its fair share had room for
// one.
func waits(o simulate.Outcome) bool {
	return o.Leaf && o.FirstWait > 0 && o.FairMeanwhile >= o.LargestJob
}

// repair is how long a pool may exceed its limits.
func repair(f *simulate.File, p simulate.Pool) time.Duration {
	e, err := f.Pools.Effective(p.Name)
	if err != nil {
		return 0
	}
	return p.Outcome.Patience - e.Starvation.FairShareTimeout
}
