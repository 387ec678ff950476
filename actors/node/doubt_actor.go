package node

// trust takes back that the node is unheard, once its agent says that its jobs are there: after
// a registration it may not have found out yet.
func (a *nodeActor) trust() {
	if !a.cfg.Words.Unheard(a.cfg.ID) {
		return
	}
	if _, granted, _ := a.read(); a.session.Trust(granted) {
		a.cfg.Words.Say(a.cfg.ID, false)
	}
}

// silent says that the node is unheard when it has been for nearly as long as its lease.
func (a *nodeActor) silent() {
	if left := a.session.Silent().Sub(a.cfg.Now()); left > 0 {
		a.life.After(&a.silence, left, a.silent)
		return
	}
	a.doubt()
}

// doubt says that the node is unheard: it may be dead. Nobody asks of one without jobs.
func (a *nodeActor) doubt() {
	a.session.Doubt()
	if _, granted, _ := a.read(); len(granted) > 0 {
		a.cfg.Words.Say(a.cfg.ID, true)
	}
}
