package agent

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// spacePeriod is the time between two measurements of the disk.
const spacePeriod = time.Second

// measure measures the disk, unless the last measurement has not returned yet.
func (a *agentActor) measure(ctx actor.Context) {
	a.look = after(ctx, a.look, spacePeriod, a.measure)
	if a.measuring {
		a.judge(ctx)
		return
	}
	a.measuring = true
	self, root, dir := ctx.Self(), ctx.ActorSystem().Root, a.cfg.StateDir
	end := a.shared.waits.begin("measure its free space")
	go func() {
		free, err := measureFree(dir)
		end()
		root.Send(self, measured{free, err})
	}()
}

// trim tells the file cache to free space on a disk that has too little for new jobs.
func (a *agentActor) trim(short int64) {
	files, node, log := a.files, a.cfg.Node, a.cfg.Logger
	go func() {
		freed, err := files.Trim(short)
		if err != nil {
			log.Warn("file cache cannot free space", "node", node, "error", err)
		}
		if freed > 0 {
			log.Info("file cache freed space: low disk space", "node", node, "bytes", freed)
		}
	}()
}

// measured handles a measurement of the disk.
func (a *agentActor) measured(ctx actor.Context, m measured) {
	a.measuring, a.seen = false, m
	if short := a.space.Short(m.free); short > 0 && m.err == nil {
		a.trim(short)
	}
	a.judge(ctx)
}

// judge registers again if the node has become, or is no longer, full or hanging, or if the
// reason has changed.
func (a *agentActor) judge(ctx actor.Context) {
	a.overtake(ctx)
	full, hang := a.journal.Full(), a.shared.waits.hang(a.cfg.StateDir, time.Now())
	if full != nil {
		// Records wait for space, not for a hanging disk.
		hang = nil
	}
	if !a.space.Saw(a.seen.free, a.seen.err, full, hang) {
		return
	}
	a.shared.figures.full(a.space.Full())
	if closed := a.space.Closed(); closed != "" {
		a.cfg.Logger.Error("not accepting new jobs", "node", a.cfg.Node, "reason", closed, "jobs", len(a.jobs))
	} else {
		a.cfg.Logger.Info("accepting new jobs again", "node", a.cfg.Node)
	}
	a.session.Anew()
	a.ask(ctx)
}

// caveat returns the guarantees that the node cannot give now.
func (a *agentActor) caveat() string {
	closed := a.space.Closed()
	switch {
	case closed == "":
		return a.cfg.Caveat
	case a.cfg.Caveat == "":
		return "not accepting new jobs: " + closed
	default:
		return "not accepting new jobs: " + closed + "; " + a.cfg.Caveat
	}
}
