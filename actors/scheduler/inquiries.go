package scheduler

import (
	"fmt"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/scheduling/engine"
)

// inquiries are the explain requests that wait for an answer. One request is processed at a time:
// its data are collected in short steps on the actor, between other messages, and the reasoning
// runs in another goroutine. Equal requests share one answer.
type inquiries struct {
	waiting []*inquiry
	// current is the request in progress, or nil.
	current *inquiry
}

// inquiry is an explain request, and the callers that wait for its answer.
type inquiry struct {
	*engine.Inquiry
	of     *actorpb.SchedulerViewRequest
	askers []View
	answer *actorpb.SchedulerView
}

// add adds a request.
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

// idle reports whether no request waits or is in progress.
func (i *inquiries) idle() bool { return i.current == nil && len(i.waiting) == 0 }

// next selects the first request for which a caller still waits as the current one, and returns it.
// It returns nil if a request is in progress or no request waits.
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

// finish answers the current request.
func (i *inquiries) finish(with *actorpb.SchedulerView) {
	q := i.current
	i.current = nil
	q.reply(with)
}

// abandon answers all requests with an empty view, because they will not be processed.
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

// reason continues the reasoning about the collected data, and sets the answer when it is complete.
// A panic makes only this request fail.
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

// MaxAskers is how many explain requests a Door admits at a time.
const MaxAskers = 128

// Door bounds the explain requests that wait for an answer. The zero value is ready.
type Door struct{ inside atomic.Int64 }

// Enter reports whether one more request is admitted; if so, the caller must call Leave in the
// end.
func (d *Door) Enter() bool {
	if d.inside.Add(1) > MaxAskers {
		d.inside.Add(-1)
		return false
	}
	return true
}

// Leave ends a request that was admitted.
func (d *Door) Leave() { d.inside.Add(-1) }
