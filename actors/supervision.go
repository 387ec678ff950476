package actors

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// The pauses before an actor that failed is restarted. They grow with each failure within the
// window, so that a permanent fault uses little CPU. Restarts are unlimited, because no other actor
// would do the work.
const (
	failureWindow = 10 * time.Second
	firstBackoff  = 100 * time.Millisecond
	maxBackoff    = 5 * time.Second
)

// restarts restarts failed actors after a pause. They recover their state from the replicated
// state.
type restarts struct{ log *slog.Logger }

// HandleFailure implements actor.SupervisorStrategy.
func (s restarts) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, rs *actor.RestartStatistics, reason, message any) {
	if rs.NumberOfFailures(failureWindow) == 0 {
		rs.Reset()
	}
	rs.Fail()
	pause := min(time.Duration(rs.FailureCount())*firstBackoff, maxBackoff)
	s.log.Error("actor failed; restarting", "actor", child.GetId(), "reason", reason, "message", message, "pause", pause)
	time.AfterFunc(pause, func() { supervisor.RestartChildren(child) })
}

// supervised returns the properties of an actor that restarts its children when they fail. `atRoot`
// means that the actor has no parent; it is then restarted too.
func supervised(log *slog.Logger, producer actor.Producer, atRoot bool) *actor.Props {
	s := restarts{log}
	options := []actor.PropsOption{actor.WithSupervisor(s), actor.WithMailbox(newMailbox)}
	if atRoot {
		options = append(options, actor.WithGuardian(s))
	}
	return actor.PropsFromProducer(producer, options...)
}
