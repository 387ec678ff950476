package agent

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"weir/actors/agent/discovery"
	"weir/actors/agent/filecache"
	"weir/messages/journalpb"
)

// environment is shared by the agent's actor and its job actors.
type environment struct {
	cfg       Config
	processes Processes
	replicas  Replicas
	shared    *shared
	// nodeLife is the node's incarnation. process is this agent process's session within it. boot
	// identifies the machine's boot; the journal keeps it for the next agent process.
	nodeLife, process uint64
	boot              string
	journal           records
	// files is the cache of job files. The files are placed in `folder`.
	files  *filecache.Cache
	folder folder
	// directory knows the peers of the jobs that ask for them.
	directory *discovery.Directory
	// life is the agent's context, which is cancelled when the agent ends.
	life  context.Context
	agent *actor.PID
}

// work is a function that is sent to an actor, which runs it: after blocking work that was done
// aside, or when a timer fires.
type work func(ctx actor.Context)

// aside runs a blocking function in a goroutine of its own. The actor then runs the work that the
// function returns.
func aside(ctx actor.Context, blocks func() work) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() { root.Send(self, blocks()) }()
}

// after stops the old timer and returns one that makes the actor run the given work after d.
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

// note appends records to the journal. Once they are on disk, the actor runs the given work, which
// may be nil. If they cannot be written, the agent ends.
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

// repeated runs a function aside, never twice at the same time. Calls while it runs are merged into
// one more run.
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
