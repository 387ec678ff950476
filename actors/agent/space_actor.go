package agent

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// spacePeriod is the time between two looks at the disk.
const spacePeriod = time.Second

type (
	// measure asks for a look at the disk, measured brings what was seen.
	measure  struct{}
	measured struct {
		free Free
		err  error
	}
)

// measure looks at the disk, which may hang.
func (a *agentActor) measure(ctx actor.Context) {
	self, root, dir := ctx.Self(), ctx.ActorSystem().Root, a.cfg.StateDir
	go func() {
		free, err := measureFree(dir)
		root.Send(self, measured{free, err})
	}()
}

// measured lets the leader know when the node has begun, or ceased, to be full, or is so
// for another reason.
func (a *agentActor) measured(ctx actor.Context, m measured) {
	a.look = after(ctx, a.look, spacePeriod, measure{})
	if !a.space.Saw(m.free, m.err, a.journal.Full()) {
		return
	}
	a.shared.figures.full(a.space.Closed() != "")
	if closed := a.space.Closed(); closed != "" {
		a.cfg.Logger.Error("no new jobs are taken until there is space", "node", a.cfg.Node, "reason", closed, "jobs", len(a.jobs))
	} else {
		a.cfg.Logger.Info("new jobs are taken again: there is space", "node", a.cfg.Node)
	}
	a.session.Anew()
	a.ask(ctx)
}

// caveat is what the node cannot promise now.
func (a *agentActor) caveat() string {
	closed := a.space.Closed()
	switch {
	case closed == "":
		return a.cfg.Caveat
	case a.cfg.Caveat == "":
		return "takes no new jobs: " + closed
	default:
		return "takes no new jobs: " + closed + "; " + a.cfg.Caveat
	}
}
