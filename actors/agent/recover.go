package agent

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/actors/agent/journal"
)

// recoveredJob is a job of an earlier process of the agent. run is nil if nothing of
// it was found.
type recoveredJob struct {
	job *Job
	run Run
}

// recover adopts the jobs of an earlier agent process. Jobs that are not in the journal are
// killed: nobody waits for their results.
func (a *agentActor) recover(kept *journal.State) error {
	for _, id := range kept.Had {
		a.ledger.Forget(id)
	}
	left := a.processes.Left()
	for _, id := range slices.Sorted(maps.Keys(left)) {
		if kept.Jobs[id] != nil {
			continue
		}
		a.cfg.Logger.Warn("stopping job that is not in the journal", "node", a.cfg.Node, "job", id)
		if err := a.processes.Discard(id); err != nil {
			return fmt.Errorf("stop job of an earlier incarnation: %w", err)
		}
	}
	now := time.Now()
	var unstarted []string
	for _, id := range slices.Sorted(maps.Keys(kept.Jobs)) {
		job, run := kept.Jobs[id], left[id]
		if run == nil && neverRan(job, a.boot) {
			// Earlier versions may leave an output folder, and the job could not be started again.
			if err := a.processes.Discard(id); err != nil {
				return fmt.Errorf("remove what is left of a job that was not started: %w", err)
			}
			unstarted = append(unstarted, id)
			continue
		}
		a.ledger.Hold(id)
		r := recoveredJob{RecoverJob(now, job, run != nil), run}
		if r.job.Phase() < Ended {
			a.gpus.Hold(id, r.job.gpus)
		}
		a.recovered = append(a.recovered, r)
		a.cfg.Logger.Info("job adopted", "node", a.cfg.Node, "job", id, "phase", r.job.word(), "pid", r.job.pid)
	}
	if len(unstarted) == 0 {
		return nil
	}
	// The leader sends these orders again, if it still wants the jobs.
	done := make(chan error, 1)
	a.journal.Append(func(err error) { done <- err }, journal.Unstarted(unstarted...))
	return <-done
}

// neverRan reports, for a job of which nothing was found, whether it cannot have had a process.
// Within one boot, a job's folder exists from before its first process until its end is in the
// journal.
func neverRan(job *journal.Job, boot string) bool {
	switch {
	case job.Exited != nil, job.Started != nil:
		return false
	case job.Starting == nil:
		return true
	default:
		return boot != "" && job.Starting.GetBoot() == boot
	}
}
