package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/reconcile"
	"weir/cluster/vault"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// State reads the replicated state of this replica.
type State interface {
	// Operation returns a copy of the record and the number of its allocations that have not
	// ended; nil if there is no such operation.
	Operation(id string) (op *statepb.Operation, allocations int)
	// Allocation returns an allocation, which must not be changed; nil if the job is not running.
	Allocation(job string) *statepb.Allocation
	// Denied says why no job of the operation may start: its user may not run jobs as their tasks
	// say. It is empty if they may start.
	Denied(operation string) string
	// Leaving returns copies of the operation's allocations whose job has an order to end.
	Leaving(operation string) []*statepb.Allocation
	// Term returns the latest term that has begun.
	Term() uint64
	InputState
	MemoryState
}

// Signals announces which jobs are leaving, and which accept requests.
type Signals interface {
	Interrupt(signal *actorpb.InterruptionSignal)
	Tell(word *actorpb.InstanceWord)
}

// Config is the configuration of a controller.
type Config struct {
	Operation string
	Epoch     uint64
	State     State
	// Log proposes commands, here or at whichever replica leads.
	Log     reconcile.Log
	Signals Signals
	// Storage provides the input of map operations, and accepts their output.
	Storage Storage
	// Vault opens the secrets of operations; nil if this replica has no key.
	Vault *vault.Vault
	// MaxJobs is how many jobs an operation may have.
	MaxJobs func() int
	// Addresses returns the addresses of the cluster, for jobs.
	Addresses func() []string
	// RetryAfter is the pause after a proposal that was not committed.
	RetryAfter time.Duration
	// MaxEnds bounds the results that wait to be committed. Further results are refused, and the
	// agent retries.
	MaxEnds int
	// Batch and BatchBytes bound the results of one proposal.
	Batch, BatchBytes int

	Now    func() time.Time
	Logger *slog.Logger
}

// FromAgent is a message of an agent about one of its own jobs.
type FromAgent struct {
	// Message is a *actorpb.JobSpecRequest, a *actorpb.JobEnded or a *actorpb.TellWord.
	Message proto.Message
	// Reply answers the agent.
	Reply func(proto.Message)
}

// New returns the producer of a controller.
func New(cfg Config) actor.Producer {
	over := new(bool)
	return reconcile.Live(cfg.Logger, func(life *reconcile.Life) reconcile.Body {
		return &controllerActor{
			cfg: cfg, life: life, ends: NewEnds(cfg.MaxEnds), signalled: map[string]*actorpb.InterruptionSignal{}, reading: newReading(), learning: learning{over: over},
		}
	})
}

type controllerActor struct {
	cfg  Config
	life *reconcile.Life
	ends *Ends
	// stepping means that a proposed step is in flight. finishing means that proposed results are.
	stepping, finishing bool
	// dirty means that a Look came while a step was in flight.
	dirty bool
	// heldBack is the last proposed reason why the tasks cannot be defined yet.
	heldBack string
	// signalled holds the announcements of jobs that are leaving.
	signalled map[string]*actorpb.InterruptionSignal
	reading   *reading
	learning  learning
	// lookAgain and flushAgain retry proposals that were not committed.
	lookAgain, flushAgain reconcile.Timer
}

// Start implements reconcile.Body.
func (a *controllerActor) Start() {
	if *a.learning.over {
		a.end()
	} else {
		a.look()
	}
}

// Take implements reconcile.Body.
func (a *controllerActor) Take(message any) bool {
	switch m := message.(type) {
	case reconcile.Look:
		a.look()
	case FromAgent:
		a.fromAgent(m)
	case Over:
		a.end()
	default:
		return false
	}
	return true
}

// Stop implements reconcile.Body.
func (a *controllerActor) Stop() {
	a.reading.cancel()
	a.ends.Drop(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "operation assigned to another controller", RetryMillis: 50})
}

// look takes the operation's next step and announces jobs that have to end.
func (a *controllerActor) look() {
	op, allocations := a.cfg.State.Operation(a.cfg.Operation)
	if op == nil || op.GetAssignment().GetEpoch() != a.cfg.Epoch {
		return
	}
	a.announce(op)
	a.callOff(op)
	a.learn()
	if a.stepping {
		a.dirty = true
		return
	}
	a.dirty = false
	step := Next(op, a.cfg.Epoch, expect(op, a.cfg.State, a.cfg.Logger))
	if work := a.longStep(op, allocations, step); work != nil {
		a.take(work)
	} else if step != nil {
		a.propose(step)
	}
}

func (a *controllerActor) propose(step proto.Message) {
	a.stepping = true
	a.life.Propose(a.cfg.Log, a.stepped, step)
}

func (a *controllerActor) stepped(results []*commandpb.Result, err error) {
	a.stepping = false
	if refusal := reconcile.Refusal(results); err != nil || refusal != nil {
		a.cfg.Logger.Debug("step not committed", "operation", a.cfg.Operation, "error", err, "refusal", refusal)
		if err != nil {
			a.heldBack = ""
		} else if refusal.GetCode() == codeTooManyJobs {
			a.wait(a.held(refusal.GetMessage()))
			return
		}
		a.lookLater()
	}
	// The commit triggers a Look, which may have come before the proposal's result.
	if a.dirty {
		a.look()
	}
}

func (a *controllerActor) lookLater() { a.life.After(&a.lookAgain, a.cfg.RetryAfter, a.look) }

// codeTooManyJobs is the refusal of tasks with more jobs than the cluster's limit, which has been
// lowered since the operation was accepted.
const codeTooManyJobs = "too_many_jobs"

// held returns the command that records why the tasks cannot be defined yet.
func (a *controllerActor) held(reason string) *commandpb.SetPendingReason {
	return &commandpb.SetPendingReason{OperationId: a.cfg.Operation, Epoch: a.cfg.Epoch, HeldBack: reason}
}

// wait proposes the reason for waiting, once, and looks again after a pause.
func (a *controllerActor) wait(why *commandpb.SetPendingReason) {
	a.lookLater()
	if why.GetHeldBack() == a.heldBack {
		a.stepping = false
		return
	}
	a.heldBack = why.GetHeldBack()
	a.propose(why)
}

// announce sends all replicas signals of jobs that have to leave, of deadlines that have become
// earlier, and of jobs that have gone.
func (a *controllerActor) announce(op *statepb.Operation) {
	leaving := a.cfg.State.Leaving(op.GetId())
	present := make(map[string]bool, len(leaving))
	now := a.cfg.Now()
	for _, allocation := range leaving {
		id := allocation.GetJobId()
		present[id] = true
		signal := Signal(now, op, allocation)
		if told := a.signalled[id]; told != nil && !signal.GetDeadline().AsTime().Before(told.GetDeadline().AsTime()) {
			continue
		}
		a.signalled[id] = signal
		a.cfg.Signals.Interrupt(signal)
	}
	for id, told := range a.signalled {
		if present[id] {
			continue
		}
		delete(a.signalled, id)
		gone := proto.CloneOf(told)
		gone.Gone, gone.Time = true, timestamppb.New(now)
		a.cfg.Signals.Interrupt(gone)
	}
}

func (a *controllerActor) fromAgent(m FromAgent) {
	switch msg := m.Message.(type) {
	case *actorpb.JobSpecRequest:
		a.spec(msg, m.Reply)
	case *actorpb.JobEnded:
		a.ended(msg, m.Reply)
	case *actorpb.TellWord:
		a.heard(msg, m.Reply)
	default:
		m.Reply(&actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("operation %s: unexpected message %T", a.cfg.Operation, m.Message)})
	}
}

func (a *controllerActor) spec(m *actorpb.JobSpecRequest, reply func(proto.Message)) {
	op, _ := a.cfg.State.Operation(a.cfg.Operation)
	allocation := a.cfg.State.Allocation(m.GetJobId())
	if op == nil || allocation == nil || allocation.GetNode() != m.GetNode() || allocation.GetOperationId() != a.cfg.Operation {
		reply(&actorpb.Refused{Code: actorpb.CodeNotFound, Reason: fmt.Sprintf("spec of job %s: not granted to node %q", m.GetJobId(), m.GetNode())})
		return
	}
	if why := a.cfg.State.Denied(a.cfg.Operation); why != "" {
		// There is nothing to run, so that it cannot be run by mistake.
		reply(&actorpb.JobSpec{JobId: m.GetJobId(), OperationId: op.GetId(), Task: allocation.GetTask(), Cookie: allocation.GetCookie(), Denied: why})
		return
	}
	spec, err := Spec(op, allocation, a.cfg.Addresses())
	if err == nil {
		spec.Secrets, err = Secrets(op, a.cfg.Vault)
	}
	switch {
	case errors.Is(err, ErrVault):
		// The job waits until an operator has given this replica the key.
		a.cfg.Logger.Error("job waits for secrets", "operation", a.cfg.Operation, "job", m.GetJobId(), "error", err)
		reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: err.Error(), RetryMillis: 5000})
	case err != nil:
		reply(&actorpb.Refused{Code: actorpb.CodeNotFound, Reason: err.Error()})
	case reads(op):
		a.addFeed(op, allocation, spec, reply)
	default:
		a.answer(spec, reply)
	}
}

// heard broadcasts an agent's report about a job that runs on its node.
func (a *controllerActor) heard(m *actorpb.TellWord, reply func(proto.Message)) {
	word := m.GetWord()
	allocation := a.cfg.State.Allocation(word.GetJobId())
	if allocation == nil || allocation.GetNode() != m.GetNode() || allocation.GetOperationId() != a.cfg.Operation {
		reply(&actorpb.Refused{Code: actorpb.CodeNotFound, Reason: fmt.Sprintf("readiness of job %s: it is not running on node %q", word.GetJobId(), m.GetNode())})
		return
	}
	if n := len(word.GetReason()); n > actorpb.MaxWordReason {
		reply(&actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("readiness of job %s: the reason has %d bytes, the limit is %d", word.GetJobId(), n, actorpb.MaxWordReason)})
		return
	}
	switch word.GetWord() {
	case actorpb.WordReady, actorpb.WordNotReady, actorpb.WordDraining:
		a.cfg.Signals.Tell(word)
		reply(&actorpb.WordHeard{JobId: word.GetJobId()})
	default:
		reply(&actorpb.Refused{Code: actorpb.CodeNotFound, Reason: fmt.Sprintf("readiness of job %s: unknown state %.20q", word.GetJobId(), word.GetWord())})
	}
}

func (a *controllerActor) ended(m *actorpb.JobEnded, reply func(proto.Message)) {
	id := m.GetJob().GetJobId()
	allocation := a.cfg.State.Allocation(id)
	if allocation == nil || allocation.GetNode() != m.GetNode() || allocation.GetOperationId() != a.cfg.Operation {
		reply(&actorpb.JobEndedAck{JobId: id, Refusal: "unknown_allocation"})
		return
	}
	if a.ends.Again(id, reply) {
		return
	}
	op, _ := a.cfg.State.Operation(a.cfg.Operation)
	job := Classify(m, allocation, taskOf(op, allocation), op.StopOrderFor(allocation))
	if reads(op) && !a.endedRead(op, allocation, job, reply) {
		return
	}
	a.complete(op, allocation, job)
	if a.finish(job, reply) && reads(op) {
		a.note(op, allocation, job)
	}
}

// finish queues a result to be proposed, and reports whether there was room for it.
func (a *controllerActor) finish(job *statepb.FinishedJob, reply func(proto.Message)) bool {
	if !a.ends.Add(job, reply) {
		reply(&actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: fmt.Sprintf(
			"operation %s: %d results already waiting to be committed, the limit: retry later", a.cfg.Operation, a.cfg.MaxEnds), RetryMillis: 500})
		return false
	}
	a.flush()
	return true
}

// flush proposes results unless a proposal is in flight. Results that arrive during a proposal
// share the next log entry.
func (a *controllerActor) flush() {
	if a.finishing {
		return
	}
	jobs := a.ends.Take(a.cfg.Batch, a.cfg.BatchBytes)
	if len(jobs) == 0 {
		return
	}
	a.finishing = true
	commands := append([]proto.Message{&commandpb.FinishJobs{OperationId: a.cfg.Operation, Epoch: a.cfg.Epoch, Jobs: jobs}}, a.conclusion(jobs)...)
	a.life.Propose(a.cfg.Log, func(results []*commandpb.Result, err error) { a.finished(jobs, results, err) }, commands...)
}

func (a *controllerActor) finished(jobs []*statepb.FinishedJob, results []*commandpb.Result, err error) {
	a.finishing = false
	if *a.learning.over {
		// The operation has ended: answer whom is left, and stop.
		defer a.end()
	}
	if err != nil {
		// The outcome is unknown. It is safe to propose the results again: the state refuses a job
		// that it has counted.
		a.ends.Return(jobs)
		a.life.After(&a.flushAgain, a.cfg.RetryAfter, a.flush)
		return
	}
	result := results[0]
	if refusal := result.GetRefusal(); refusal != nil {
		a.cfg.Logger.Debug("results rejected", "operation", a.cfg.Operation, "code", refusal.GetCode(), "reason", refusal.GetMessage())
		a.ends.Drop(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: refusal.GetMessage(), RetryMillis: 100})
		return
	}
	for _, job := range result.GetFinishJobs().GetJobs() {
		a.ends.Settle(job.GetJobId(), job.GetRefusal())
	}
	a.flush()
}
