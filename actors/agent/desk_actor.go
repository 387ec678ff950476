package agent

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/discovery"
)

// saved brings the job's word that its state is saved.
type saved struct{ answer chan<- error }

// errNotTaken is the answer to a job whose word could not be taken.
var errNotTaken = errors.New("the agent is busy, or ends; try again")

// newDesk makes the place where the job asks.
func (a *jobActor) newDesk(ctx actor.Context) *discovery.Desk {
	self, root, start, life, patience := ctx.Self(), ctx.ActorSystem().Root, a.job.start, a.life, a.cfg.Timing.AskTimeout
	desk := discovery.NewDesk(discovery.Asker{
		Job: start.GetJobId(), Operation: start.GetOperationId(), Index: start.GetToken().GetIndex(),
		Acknowledge: func() error {
			answer := make(chan error, 1)
			root.Send(self, saved{answer})
			select {
			case err := <-answer:
				return err
			case <-life.Done():
			case <-time.After(patience):
			}
			return errNotTaken
		},
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
