package node

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

// doubt announces the node as unheard, because it may be dead. A node without jobs needs no
// announcement.
func (a *nodeActor) doubt() {
	a.session.Doubt()
	if _, granted, _ := a.read(); len(granted) > 0 {
		a.cfg.Words.Say(a.cfg.ID, true)
	}
}
