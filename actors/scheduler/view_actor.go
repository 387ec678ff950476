package scheduler

import (
	"time"

	"weir/messages/actorpb"
)

// askEvery is how often the actor asks when a waiting operation starts a job, one after the other: what
// comes of the answers corrects the ranges of later ones.
const askEvery = 30 * time.Second

// View requests the view of the last fair share update, the current view of one element, or an
// explanation. Reply is called once, on the actor's goroutine, with a message that is shared and
// must not be changed. If Gone returns true, the caller no longer waits and the request is dropped.
// A nil Gone means that the caller always waits.
type View struct {
	Of    *actorpb.SchedulerViewRequest
	Reply func(*actorpb.SchedulerView)
	Gone  func() bool
}

func (v View) waits() bool { return v.Gone == nil || !v.Gone() }

// view answers with the view of one element, or with the shared view of all. Explanations of
// operations and pools are answered later, after several turns of the actor.
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

// inquire starts the next explain request, if none is in progress.
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

// probe asks about the next waiting operation, if that is due and nobody else asks.
func (a *treeActor) probe(now time.Time) {
	switch {
	case a.probed.IsZero():
		a.probed = now
	case now.Sub(a.probed) >= askEvery && a.inquiries.idle():
		a.probed = now
		if id, ok := a.tree.engine.Probe(); ok {
			a.inquiries.add(View{Of: &actorpb.SchedulerViewRequest{Tree: string(a.cfg.Tree), Explain: true, Operation: string(id)}, Reply: func(*actorpb.SchedulerView) {}})
			a.inquire()
		}
	}
}

// attend runs one step of the current request in the engine. Queued messages are handled before
// the next step.
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
	a.tree.engine.Conclude(a.inquiries.current.Inquiry)
	answer := a.inquiries.current.answer
	if err != nil {
		a.cfg.Logger.Error("explain request failed", "tree", a.cfg.Tree, "error", err)
		answer = nothing(a.cfg)
	}
	a.inquiries.finish(answer)
	a.inquire()
}
