package scheduler

import "weir/messages/actorpb"

// View asks for what the engine saw after the last fair share update, for what it sees of
// one element, or why that is as it is. Reply is called once, on the actor's goroutine,
// with what others are shown, too: it must not be changed. Nobody looks into a question
// when Gone says that who asked has gone; nil: waits on.
type View struct {
	Of    *actorpb.SchedulerViewRequest
	Reply func(*actorpb.SchedulerView)
	Gone  func() bool
}

func (v View) waits() bool { return v.Gone == nil || !v.Gone() }

// view answers with a view of one element, or the shared one of all; why something is as
// it is takes longer.
func (a *treeActor) view(m View) {
	switch {
	case m.Of.GetExplain() && m.Of.GetJob() == "":
		a.inquiries.add(m)
		a.inquire()
	case m.Of.GetExplain():
		m.Reply(a.tree.explainJob(a.cfg, m.Of, a.cfg.Now()))
	case ofOne(m.Of):
		m.Reply(a.tree.view(a.cfg, m.Of, a.cfg.Now()))
	default:
		if a.shown == nil {
			a.shown = a.tree.view(a.cfg, m.Of, a.cfg.Now())
		}
		m.Reply(a.shown)
	}
}

// inquire begins with the next question, if there is one and none is looked into.
func (a *treeActor) inquire() {
	for q := a.inquiries.next(); q != nil; q = a.inquiries.next() {
		var err error
		if q.Inquiry, err = a.tree.inquire(q.of, a.cfg.Now()); err == nil {
			a.life.Do(a.attend)
			return
		}
		a.inquiries.finish(nothing(a.cfg))
	}
}

// attend has the engine say a bit more of what is asked. What is in the mailbox comes
// before the next bit.
func (a *treeActor) attend() {
	q := a.inquiries.current
	if q.Wants() {
		a.tree.engine.Attend(q.Inquiry)
		a.life.Do(a.attend)
		return
	}
	go func() {
		done, err := q.reason(a.cfg)
		a.life.Do(func() { a.reasoned(done, err) })
	}()
}

func (a *treeActor) reasoned(done bool, err error) {
	if !done {
		a.attend()
		return
	}
	answer := a.inquiries.current.answer
	if err != nil {
		a.cfg.Logger.Error("question without an answer", "tree", a.cfg.Tree, "error", err)
		answer = nothing(a.cfg)
	}
	a.inquiries.finish(answer)
	a.inquire()
}
