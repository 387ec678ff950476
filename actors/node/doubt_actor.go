package node

import "github.com/asynkron/protoactor-go/actor"

// trust takes back that the node is unheard, once its agent says that its jobs are there: after
// a registration it may not have found out yet.
func (a *nodeActor) trust() {
	if !a.cfg.Words.Unheard(a.cfg.ID) {
		return
	}
	if _, granted, _ := a.cfg.State.Node(a.cfg.ID); a.session.Trust(granted) {
		a.cfg.Words.Say(a.cfg.ID, false)
	}
}

// silent says that the node is unheard when it has been for nearly as long as its lease.
func (a *nodeActor) silent(ctx actor.Context) {
	now := a.cfg.Now()
	if left := a.session.Silent().Sub(now); left > 0 {
		a.silence = a.after(ctx, a.silence, left, silent{})
		return
	}
	a.doubt()
}

// doubt says that the node is unheard: it may be dead. Nobody asks of one without jobs.
func (a *nodeActor) doubt() {
	a.session.Doubt()
	if _, granted, _ := a.cfg.State.Node(a.cfg.ID); len(granted) > 0 {
		a.cfg.Words.Say(a.cfg.ID, true)
	}
}
