package fleet

import (
	"context"
	"time"
)

// churnPeriod is how often jobs complete, many at a time.
const churnPeriod = 10 * time.Millisecond

// Churn completes so many running jobs a second, one of each node by turns, until ctx is done. A node without any
// misses its turn.
func (f *Fleet) Churn(ctx context.Context, rate float64) {
	ticks := time.NewTicker(churnPeriod)
	defer ticks.Stop()
	began, done := time.Now(), 0
	for ctx.Err() == nil {
		for due := int(rate * time.Since(began).Seconds()); done < due; done++ {
			f.nodes[done%len(f.nodes)].completeOne()
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// completeOne completes a job of the node that has not ended.
func (n *node) completeOne() {
	if job := n.running(); job != nil {
		job.complete()
	}
}

// running returns a job of the node that has not ended; nil if there is none.
func (n *node) running() *job {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, job := range n.jobs {
		if job.result == nil {
			return job
		}
	}
	return nil
}
