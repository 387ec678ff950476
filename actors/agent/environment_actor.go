package agent

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/discovery"
	"weir/actors/agent/filecache"
	"weir/messages/journalpb"
)

// environment is what the agent's actor and those of its jobs work with.
type environment struct {
	cfg       Config
	processes Processes
	replicas  Replicas
	shared    *shared
	// nodeLife and process are the node's life and this process' session in it, boot is the
	// machine's, of which the journal tells the next process of the agent.
	nodeLife, process uint64
	boot              string
	journal           records
	// files are kept for jobs, and placed in folder.
	files  *filecache.Cache
	folder folder
	// directory knows the peers of jobs that ask.
	directory *discovery.Directory
	// life ends with the agent.
	life  context.Context
	agent *actor.PID
}

// work is a message that has an actor do something in its turn: what follows from what was
// done aside, or is due at a time.
type work func(ctx actor.Context)

// aside does what blocks, and has the actor do what follows.
func aside(ctx actor.Context, blocks func() work) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() { root.Send(self, blocks()) }()
}

// after has the actor do something later, instead of what old would have had it do.
func after(ctx actor.Context, old *time.Timer, d time.Duration, then work) *time.Timer {
	stopTimers(old)
	self, root := ctx.Self(), ctx.ActorSystem().Root
	return time.AfterFunc(max(d, 0), func() { root.Send(self, then) })
}

func stopTimers(timers ...*time.Timer) {
	for _, timer := range timers {
		if timer != nil {
			timer.Stop()
		}
	}
}

// note puts records into the journal and has the actor do what follows once they are there;
// nil: nothing. If they cannot be there, the agent ends.
func (e *environment) note(ctx actor.Context, then work, records ...*journalpb.Record) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	end := e.shared.waits.begin("write to its journal")
	e.journal.Append(func(err error) {
		end()
		switch {
		case err != nil:
			root.Send(e.agent, spoiled{err})
		case then != nil:
			root.Send(self, then)
		}
	}, records...)
}

// repeated is done aside, one at a time. What is asked for meanwhile is done once more after it.
type repeated struct{ busy, again bool }

func (r *repeated) do(ctx actor.Context, blocks func()) {
	if r.busy {
		r.again = true
		return
	}
	r.busy, r.again = true, false
	aside(ctx, func() work {
		blocks()
		return func(ctx actor.Context) {
			r.busy = false
			if r.again {
				r.do(ctx, blocks)
			}
		}
	})
}
