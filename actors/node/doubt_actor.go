package node

import (
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// trust withdraws the announcement that the node is unheard, once the jobs that its agent no longer
// has are no longer granted (Session.Trust). Right after a registration the agent may not know yet
// which jobs it has.
func (a *nodeActor) trust() {
	if !a.cfg.Words.Unheard(a.cfg.ID) {
		return
	}
	if _, granted, _ := a.read(); a.session.Trust(granted) {
		a.cfg.Words.Say(a.cfg.ID, false)
	}
}

// silent announces the node as unheard after a silence of nearly its lease.
func (a *nodeActor) silent() {
	if left := a.session.Silent().Sub(a.cfg.Now()); left > 0 {
		a.life.After(&a.silence, left, a.silent)
		return
	}
	a.doubt()
}

// doubt keeps jobs away from the node, and announces it as unheard, because it may be dead. A node
// without jobs needs no announcement.
func (a *nodeActor) doubt() {
	a.fresh = false
	a.session.Doubt()
	a.cfg.Scheduler.Doubt(a.tree, a.cfg.ID)
	if _, granted, _ := a.read(); len(granted) > 0 {
		a.cfg.Words.Say(a.cfg.ID, true)
	}
}

func (a *nodeActor) armExpiry() {
	a.life.After(&a.lease, a.session.Expires().Sub(a.cfg.Now()), a.expire)
	a.life.After(&a.silence, a.session.Silent().Sub(a.cfg.Now()), a.silent)
}

// expire gives the node up when its lease has expired.
func (a *nodeActor) expire() {
	if a.cfg.Now().Before(a.session.Expires()) {
		a.armExpiry()
		return
	}
	if a.inFlight {
		a.life.After(&a.lease, a.cfg.RetryAfter, a.expire)
		return
	}
	record, granted, _ := a.read()
	a.cfg.Scheduler.Withdraw(a.tree, a.cfg.ID)
	if record.GetState() != statepb.NodeOnline {
		a.look()
		return
	}
	lease := a.session.Pace().Lease
	a.session.Close()
	commands := []proto.Message{&commandpb.SetNodeOffline{
		Term: a.cfg.Term, Node: a.cfg.ID, Incarnation: record.GetIncarnation(), Reason: "lease expired",
	}}
	if len(granted) > 0 {
		commands = append(commands, a.abort(lifecycle.AbortNodeOffline, ids(granted)))
	}
	a.proposeUntil(&a.lease, a.expire, func() {
		// Not before it is committed: a leader that wakes from a pause has been replaced.
		a.cfg.Logger.Warn("node lost: lease expired", "node", a.cfg.ID, "jobs", len(granted), "lease", lease)
	}, commands...)
}
