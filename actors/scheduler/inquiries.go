package scheduler

import (
	"fmt"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/scheduling/engine"
)

// inquiries are those who ask why, and wait for an answer. One question at a time is
// looked into, in short steps between which the actor decides, and thought about beside
// it. All who ask the same get one answer.
type inquiries struct {
	waiting []*inquiry
	// current is the one that is looked into; nil: none is.
	current *inquiry
}

// inquiry is a question, and who asked it.
type inquiry struct {
	*engine.Inquiry
	of     *actorpb.SchedulerViewRequest
	askers []View
	answer *actorpb.SchedulerView
}

// add takes a question.
func (i *inquiries) add(m View) {
	all := i.waiting
	if i.current != nil {
		all = append([]*inquiry{i.current}, all...)
	}
	at := slices.IndexFunc(all, func(q *inquiry) bool { return proto.Equal(q.of, m.Of) })
	if at >= 0 {
		all[at].askers = append(all[at].askers, m)
		return
	}
	i.waiting = append(i.waiting, &inquiry{of: m.Of, askers: []View{m}})
}

// next makes the first question that somebody still waits for the current one, unless
// there is one; nil: there is nothing to begin.
func (i *inquiries) next() *inquiry {
	for i.current == nil && len(i.waiting) > 0 {
		q := i.waiting[0]
		i.waiting = i.waiting[1:]
		if slices.ContainsFunc(q.askers, View.waits) {
			i.current = q
			return q
		}
		q.reply(&actorpb.SchedulerView{})
	}
	return nil
}

// finish answers the current question.
func (i *inquiries) finish(with *actorpb.SchedulerView) {
	q := i.current
	i.current = nil
	q.reply(with)
}

// abandon answers all with nothing: nobody will look into their questions.
func (i *inquiries) abandon(with *actorpb.SchedulerView) {
	all := i.waiting
	if i.current != nil {
		all = append(all, i.current)
	}
	*i = inquiries{}
	for _, q := range all {
		q.reply(with)
	}
}

func (q *inquiry) reply(with *actorpb.SchedulerView) {
	for _, m := range q.askers {
		m.Reply(with)
	}
}

// reason thinks about what the engine has said, and writes the answer down when that is
// all. A fault in it is the fault of this question alone.
func (q *inquiry) reason(cfg Config) (done bool, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			done, err = true, fmt.Errorf("explain %v: %v", q.of, fault)
		}
	}()
	if done = q.Reason(); done {
		q.answer = explanation(cfg, q.of, q.Explanation(), cfg.Now())
	}
	return done, nil
}

// MaxAskers is how many may wait at a Door.
const MaxAskers = 128

// Door lets those in who ask why, as many at a time as may wait for their answers. The
// zero value is ready.
type Door struct{ inside atomic.Int64 }

// Enter reports whether one more may ask: who has done so calls Leave in the end.
func (d *Door) Enter() bool {
	if d.inside.Add(1) > MaxAskers {
		d.inside.Add(-1)
		return false
	}
	return true
}

// Leave is for one who was let in.
func (d *Door) Leave() { d.inside.Add(-1) }
