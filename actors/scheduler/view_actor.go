package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"weir/messages/actorpb"
)

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

// What the actor tells itself of questions.
type (
	// attend takes the next step of what is asked, reasoned says that what the engine said
	// so far has been thought about.
	attend   struct{ of *treeActor }
	reasoned struct {
		of   *treeActor
		done bool
		err  error
	}
)

// view answers with a view of one element, or the shared one of all; why something is as
// it is takes longer.
func (a *treeActor) view(ctx actor.Context, m View) {
	switch {
	case m.Of.GetExplain() && m.Of.GetJob() == "":
		a.inquiries.add(m)
		a.inquire(ctx)
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
func (a *treeActor) inquire(ctx actor.Context) {
	for q := a.inquiries.next(); q != nil; q = a.inquiries.next() {
		var err error
		if q.Inquiry, err = a.tree.inquire(q.of, a.cfg.Now()); err == nil {
			ctx.Send(ctx.Self(), attend{a})
			return
		}
		a.inquiries.finish(nothing(a.cfg))
	}
}

// attend has the engine say a bit more of what is asked. What is in the mailbox comes
// before the next bit.
func (a *treeActor) attend(ctx actor.Context) {
	q := a.inquiries.current
	if q.Wants() {
		a.tree.engine.Attend(q.Inquiry)
		ctx.Send(ctx.Self(), attend{a})
		return
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() {
		done, err := q.reason(a.cfg)
		root.Send(self, reasoned{a, done, err})
	}()
}

func (a *treeActor) reasoned(ctx actor.Context, m reasoned) {
	if !m.done {
		a.attend(ctx)
		return
	}
	answer := a.inquiries.current.answer
	if m.err != nil {
		a.cfg.Logger.Error("question without an answer", "tree", a.cfg.Tree, "error", m.err)
		answer = nothing(a.cfg)
	}
	a.inquiries.finish(answer)
	a.inquire(ctx)
}
