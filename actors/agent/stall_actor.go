package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// awaiting are orders that wait for the journal. overtaken: they were handled without it,
// because the disk hangs.
type awaiting struct {
	orders    Orders
	since     time.Time
	overtaken bool
}

// takeOldest removes the oldest waiting orders, which are now in the journal, and reports
// whether they were overtaken. The journal reports orders in the sequence in which they
// arrived.
func (a *agentActor) takeOldest() (overtaken bool) {
	oldest := a.awaiting[0]
	a.awaiting = a.awaiting[1:]
	return oldest.overtaken
}

// overtake handles orders that have waited too long for the journal, as far as that is safe: jobs
// are ended, and new ones are declined, so that they run elsewhere. If the journal still records
// such a job as granted, the next agent process finds no trace of it.
func (a *agentActor) overtake(ctx actor.Context) {
	now := time.Now()
	if a.journal.Full() != nil {
		return
	}
	for _, each := range a.awaiting {
		if each.overtaken || now.Sub(each.since) < a.cfg.JobEndTimeout {
			continue
		}
		each.overtaken = true
		a.intake.Followed()
		why := a.cfg.stuck("record the leader's orders")
		a.lose(ctx, now, each.orders.Gone)
		for _, start := range slices.Concat(each.orders.Start, each.orders.Declined) {
			a.cfg.Logger.Error("job declined while the disk hangs", "job", start.GetJobId(), "reason", why)
			a.spawn(ctx, NewDeclinedJob(now, start, why), nil)
		}
		a.abort(ctx, now, each.orders.Abort)
	}
}

// stuck returns the message that an operation has waited for the disk for JobEndTimeout. The
// parameter `what` names the operation.
func (c *Config) stuck(what string) string {
	return fmt.Sprintf("disk of %s not responding: cannot %s within %v (--job-end-timeout)", c.StateDir, what, c.JobEndTimeout)
}

// watch sets the timer of a duty that waits for the disk.
func (a *jobActor) watch(ctx actor.Context, duty Duty) {
	stopTimers(a.stall)
	a.watching++
	if diskDuties[duty] != "" {
		number := a.watching
		a.stall = after(ctx, a.stall, a.cfg.JobEndTimeout, func(ctx actor.Context) {
			if number == a.watching {
				a.stalled(ctx, duty)
			}
		})
	}
}

// stalled gives up a duty that the disk has not done in time. It waits on if the journal is
// full, which is reported separately.
func (a *jobActor) stalled(ctx actor.Context, duty Duty) {
	if !a.job.Underway(duty) {
		return
	}
	if (duty == NoteStart || duty == NoteEnd) && a.journal.Full() != nil {
		a.watch(ctx, duty)
		return
	}
	why := a.cfg.stuck(diskDuties[duty])
	a.cfg.Logger.Error("disk not responding; job continues without it", "job", a.job.start.GetJobId(), "reason", why)
	if a.stopStart != nil {
		a.stopStart()
	}
	a.job.Stalled(time.Now(), duty, why)
	a.act(ctx)
}

// beganLate ends the processes of a job whose start was given up before.
func (a *jobActor) beganLate(ctx actor.Context, run Run, err error) {
	a.job.StartedLate(err)
	if err == nil {
		a.run = run
		a.cfg.Logger.Warn("stopping job: its start had been abandoned, but the disk responded late and it started", "job", a.job.start.GetJobId())
		a.endLate()
	}
	a.act(ctx)
}

// endLate ends the processes of a job whose end has been reported. It tries once: the runner
// makes sure that a job whose stop failed ends too.
func (a *jobActor) endLate() {
	run, log, job := a.run, a.cfg.Logger, a.job.start.GetJobId()
	go func() {
		if err := run.Stop("start was abandoned before it finished", 0); err != nil {
			log.Warn("cannot stop job", "job", job, "error", err)
		}
	}()
}
