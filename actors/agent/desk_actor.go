package agent

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/discovery"
)

// errNotTaken is the answer to a job whose request could not be handled.
var errNotTaken = errors.New("agent busy or stopping; try again")

// newDesk returns the desk that answers the job's discovery requests.
func (a *jobActor) newDesk(ctx actor.Context) *discovery.Desk {
	self, root, start, life, patience := ctx.Self(), ctx.ActorSystem().Root, a.job.start, a.life, a.cfg.Timing.AskTimeout
	desk := discovery.NewDesk(discovery.Asker{
		Job: start.GetJobId(), Operation: start.GetOperationId(), Index: start.GetToken().GetIndex(),
		Acknowledge: func() error {
			ctx, cancel := context.WithTimeout(life, patience)
			defer cancel()
			refused, late := await(ctx, func(done func(error)) { root.Send(self, saved{done}) })
			if late != nil {
				return errNotTaken
			}
			return refused
		},
		Say: a.say,
	}, a.directory)
	// An adopted job may have been asked to leave before.
	desk.Tell(a.job.Notice())
	return desk
}

// openDesk answers the job's discovery requests until its processes have ended, or the agent
// leaves them running.
func (a *jobActor) openDesk() {
	if listener := a.run.Discovery(); listener != nil {
		go discovery.Serve(listener, a.desk)
	}
}

// saved handles the job's report that its state is saved. The answer waits until the stop has
// reached the job's processes: if the agent died before that, its next process would not know of
// the report.
func (a *jobActor) saved(ctx actor.Context, m saved) {
	if err := a.job.Saved(); err != nil {
		m.answer(err)
		return
	}
	a.unanswered = append(a.unanswered, m.answer)
	a.act(ctx)
}

// told handles the result of sending the job's processes an instruction about their end. The
// result of an outdated instruction is ignored.
func (a *jobActor) told(ctx actor.Context, m told) {
	switch {
	case !a.job.Tells(m.number):
	case m.err != nil:
		a.cfg.Logger.Warn("cannot stop job; retrying", "job", a.job.start.GetJobId(), "error", m.err)
		a.retry(ctx, pressPause, StopRun)
	default:
		a.job.Told(m.number)
		for _, answer := range a.unanswered {
			answer(nil)
		}
		a.unanswered = nil
		a.act(ctx)
	}
}
