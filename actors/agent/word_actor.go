package agent

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent/journal"
	"weir/actors/agent/readiness"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
)

// openWords begins to watch the job's readiness and to report it.
func (a *jobActor) openWords() {
	teller := &teller{
		node: a.cfg.Node, session: a.process, grant: a.job.start, timeout: a.cfg.Timing.AskTimeout,
		replicas: a.replicas, known: &a.shared.replicas, courier: NewCourier(controllerOf(a.job.start), a.cfg.Timing, rand.Float64),
	}
	id := a.job.start.GetJobId()
	watcher := readiness.Watch(readiness.Config{
		Task: a.job.spec.GetReadiness(), Said: a.job.said, Tell: teller.tell,
		Place: readiness.Place{Host: a.cfg.Host, Ports: a.job.start.GetPorts(), Exec: a.run.Probe},
		Note:  func(ctx context.Context, word string) error { return a.write(ctx, journal.Said(id, word)) },
	})
	a.words.Store(watcher)
}

// closeWords stops watching the job's readiness. A job that was ordered to stop needs no watch: the
// cluster gave the order, so it knows already that the job is leaving.
func (a *jobActor) closeWords() {
	if watcher := a.words.Swap(nil); watcher != nil {
		watcher.Close()
	}
}

// say handles the job's own report of its readiness.
func (a *jobActor) say(word string) error {
	if watcher := a.words.Load(); watcher != nil {
		return watcher.Say(word)
	}
	return errNotTaken
}

// write appends a record to the journal and returns when it is on disk.
func (a *jobActor) write(ctx context.Context, record *journalpb.Record) error {
	written, err := await(ctx, func(done func(error)) { a.journal.Append(done, record) })
	return cmp.Or(err, written)
}

// await calls the function begin and waits for its outcome, or until ctx is done.
func await[T any](ctx context.Context, begin func(done func(T))) (outcome T, err error) {
	came := make(chan T, 1)
	begin(func(outcome T) { came <- outcome })
	select {
	case outcome = <-came:
		return outcome, nil
	case <-ctx.Done():
		return outcome, ctx.Err()
	}
}

// teller sends readiness reports of one job to its operation's controller.
type teller struct {
	node     string
	session  uint64
	grant    *actorpb.StartJob
	timeout  time.Duration
	replicas Replicas
	known    *atomic.Pointer[[]Replica]
	courier  *Courier
}

// tell sends a report, and returns when the controller has it, nobody wants it, or ctx is done.
func (t *teller) tell(ctx context.Context, word *actorpb.InstanceWord) {
	word = proto.CloneOf(word)
	word.OperationId, word.JobId, word.Session = t.grant.GetOperationId(), t.grant.GetJobId(), t.session
	t.courier.Reset()
	for ctx.Err() == nil {
		to, find := t.courier.Next(*t.known.Load())
		var question proto.Message = &actorpb.TellWord{Node: t.node, GrantIndex: t.grant.GetToken().GetIndex(), Word: word}
		if find {
			question = &actorpb.FindController{OperationId: t.grant.GetOperationId(), GrantIndex: t.grant.GetToken().GetIndex()}
		}
		reply, err := ask(ctx, t.replicas, to, question, t.timeout)
		verdict, pause, _ := t.courier.Heard(find, reply, err)
		switch verdict {
		case Nobody, Answered:
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// ask asks a replica and waits for its answer, or until ctx is done.
func ask(ctx context.Context, replicas Replicas, to Replica, question proto.Message, timeout time.Duration) (proto.Message, error) {
	type answer struct {
		reply proto.Message
		err   error
	}
	answered, late := await(ctx, func(done func(answer)) {
		replicas.Ask(to, question, timeout, func(reply proto.Message, err error) { done(answer{reply, err}) })
	})
	return answered.reply, cmp.Or(late, answered.err)
}
