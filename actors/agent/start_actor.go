package agent

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"
)

// startRun starts the job's processes with the rest of the node's lease.
func (a *jobActor) startRun(ctx actor.Context) {
	stopTimers(a.overdue)
	left := a.shared.leaseLeft()
	if left <= 0 {
		a.began(ctx, nil, ErrNoLease)
		return
	}
	spec, ports := another(a.job.Spec(left, &a.cfg)), a.job.start.GetPorts()
	spec.LeaseEnd = a.shared.clock.now() + left
	placed := a.placed
	dir := a.folder.placing(spec.ID)
	if placed {
		a.placed = false
		// rename(2) may replace an empty folder, which os.Rename refuses.
		spec.Furnish = func(workspace string) error { return unix.Rename(dir, workspace) }
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	life, stop := context.WithCancel(a.life)
	a.stopStart = stop
	end := a.shared.waits.begin("start job " + spec.ID)
	go func() {
		defer stop()
		var run Run
		err := checkPorts(ports)
		if err == nil {
			run, err = a.processes.Start(life, spec)
		}
		if err != nil && placed {
			a.removePlaced(dir)
		}
		end()
		root.Send(self, work(func(ctx actor.Context) { a.began(ctx, run, err) }))
		if err == nil {
			pass(run, self, root)
		}
	}()
}

// pass sends the events of the job's processes to its actor.
func pass(run Run, self *actor.PID, root *actor.RootContext) {
	for event := range run.Events() {
		root.Send(self, event)
	}
}

// began handles the outcome of starting processes.
func (a *jobActor) began(ctx actor.Context, run Run, err error) {
	if a.job.Phase() >= Ended {
		a.beganLate(ctx, run, err)
		return
	}
	if err != nil && a.life.Err() != nil {
		// The start was cancelled because this process ends. The next one finds no trace of it.
		return
	}
	a.run = run
	a.job.Started(time.Now(), err)
	a.shared.figures.started(err)
	if err == nil {
		a.openDesk()
		a.openWords()
	} else {
		a.cfg.Logger.Warn("job not started", "job", a.job.start.GetJobId(), "error", err)
	}
	a.act(ctx)
}
