package agent

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/discovery"
)

// errNotTaken is the answer to a job whose word could not be taken.
var errNotTaken = errors.New("agent busy or stopping; try again")

// newDesk makes the place where the job asks.
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
	// One that was adopted may have been told before.
	desk.Tell(a.job.Notice())
	return desk
}

// openDesk takes what the job asks, until its processes have ended or are left.
func (a *jobActor) openDesk() {
	if listener := a.run.Discovery(); listener != nil {
		go discovery.Serve(listener, a.desk)
	}
}

// saved takes the job's word that its state is saved. Who gave it hears that it was taken
// when the job's processes have been told: the next process of the agent, should this one
// die now, would not know of it.
func (a *jobActor) saved(ctx actor.Context, m saved) {
	if err := a.job.Saved(); err != nil {
		m.answer(err)
		return
	}
	a.unanswered = append(a.unanswered, m.answer)
	a.act(ctx)
}

// told takes the outcome of telling the job's processes about their end. An older one
// says nothing of what they are told now.
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
