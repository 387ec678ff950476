package agent

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/runner"
)

// memoryPeriod is the time between two checks of the node's memory. Job proxies measure as
// often.
const memoryPeriod = 250 * time.Millisecond

// gauge measures the machine's memory.
type gauge struct {
	// source is set at the first measurement.
	source *pressureSource
	failed bool
}

// lookAtMemory measures the machine's memory, without blocking the actor. The next measurement
// is scheduled when this one has ended.
func (a *agentActor) lookAtMemory(ctx actor.Context) {
	measure := a.cfg.machine
	if measure == nil {
		if a.gauge.source == nil {
			found := findPressure("/")
			found.tell(a.cfg.Logger, a.cfg.Node)
			a.gauge.source = &found
		}
		measure = a.gauge.source.measure
	}
	aside(ctx, func() work {
		a.processes.MeasureGrown()
		machine, err := measure()
		var whole runner.Resources
		if err == nil {
			whole, err = runner.Machine("/")
		}
		return func(ctx actor.Context) { a.sawMemory(ctx, machine, whole.Memory, err) }
	})
}

// sawMemory handles a measurement and stops the jobs that the guard picks.
func (a *agentActor) sawMemory(ctx actor.Context, machine Machine, limit int64, err error) {
	a.watch = after(ctx, a.watch, memoryPeriod, a.lookAtMemory)
	if failed := err != nil; failed != a.gauge.failed {
		a.gauge.failed = failed
		if failed {
			a.cfg.Logger.Warn("cannot measure machine memory; only node and job limits apply", "node", a.cfg.Node, "error", err)
		}
	}
	node := NodeMemory{Limit: a.cfg.Resources.Memory, Pressure: machine.Pressure()}
	if limit > 0 {
		// The machine may have been made smaller since the agent was started.
		node.Limit = min(node.Limit, limit)
	}
	now := time.Now()
	uses := make([]MemoryUse, 0, len(a.jobs))
	for _, job := range a.jobs {
		uses = append(uses, job.use)
	}
	a.shared.figures.memory(node.Limit, uses)
	for _, eviction := range a.guard.Decide(now, node, uses) {
		a.cfg.Logger.Warn("job stopped: node out of memory", "node", a.cfg.Node, "job", eviction.Job, "code", eviction.Reason.String(), "reason", eviction.Message)
		job := a.jobs[eviction.Job]
		job.use.Deadline = now
		ctx.Send(job.pid, order{Order{Reason: eviction.Reason, Message: eviction.Message, Attributes: eviction.Attributes, Deadline: now}})
	}
}
