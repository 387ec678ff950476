package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// publishAttempts bounds how often an output is published that a full disk or a store
// that does not answer keeps from being there; the pauses double.
const publishAttempts = 8

// Storage finds input and takes output. *storage.Storage is one.
type Storage interface {
	List(ctx context.Context, paths []string) ([]*statepb.InputFile, error)
	Source(ctx context.Context, file *statepb.InputFile) (string, error)
	Prepare(ctx context.Context, out storage.Output) error
	Destination(ctx context.Context, out storage.Output, part string) (string, error)
	Publish(ctx context.Context, out storage.Output, parts []storage.Part) error
	FileSource(ctx context.Context, path string) (string, error)
	FileDestination(ctx context.Context, path string) (string, error)
}

// InputState reads what map operations read and have written. What it returns is not to
// be changed.
type InputState interface {
	// Input returns what the operation reads; nil before it is prepared.
	Input(operation string) *statepb.Input
	// Slices returns what a cookie that is not completed reads.
	Slices(operation, task string, cookie int32) []*statepb.Slice
	// Parts returns what completed cookies have read and written.
	Parts(operation, task string) []*statepb.CompletedPart
	// Progress returns how much has been read.
	Progress(operation, task string) *statepb.InputProgress
	// Failed returns jobs that have failed and are told still, oldest first.
	Failed(operation, task string) []*statepb.FinishedJob
}

// reading is what a controller of a map operation knows besides.
type reading struct {
	// ctx ends with the actor's life, publishing with the publication.
	ctx     context.Context
	cancel  context.CancelFunc
	publish context.CancelFunc
	// input never changes once it is there; initial is into how many jobs it was cut.
	input   *statepb.Input
	initial int
	// suspicions are of cookies that have failed.
	suspicions map[int32]*suspicion
}

func newReading() *reading {
	m := &reading{publish: func() {}, suspicions: map[int32]*suspicion{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// reads reports whether an operation has an input.
func reads(op *statepb.Operation) bool { return op.GetSpec().GetMap() != nil }

// longStep returns what makes the next step of a map operation, when that takes its time;
// step is the next step of an operation that reads nothing, and is completed where a map
// operation has more to say.
func (a *controllerActor) longStep(op *statepb.Operation, allocations int, step proto.Message) func() proto.Message {
	if !reads(op) {
		return a.checked(op, step)
	}
	switch m := step.(type) {
	case *commandpb.PrepareOperation:
		return func() proto.Message { return a.prepare(op) }
	case *commandpb.DefineTasks:
		return func() proto.Message { return a.define(op, m) }
	}
	if op.GetState() == lifecycle.Completing.String() && op.GetOutput() == nil && allocations == 0 {
		ctx, cancel := context.WithCancel(a.reading.ctx)
		a.reading.publish = cancel
		return func() proto.Message { return a.publish(ctx, op) }
	}
	return nil
}

// callOff ends a publication that is of no use any more.
func (a *controllerActor) callOff(op *statepb.Operation) {
	if op.GetState() != lifecycle.Completing.String() {
		a.reading.publish()
	}
}

// take makes a step off the actor's goroutine; nil: there is none.
func (a *controllerActor) take(work func() proto.Message) {
	a.stepping = true
	go func() {
		step := work()
		a.life.Do(func() { a.made(step) })
	}()
}

func (a *controllerActor) made(step proto.Message) {
	switch m := step.(type) {
	case nil:
		a.stepping = false
		a.lookLater()
	case *commandpb.SetPendingReason:
		a.wait(m)
	default:
		a.propose(step)
	}
}

// prepare lists the input, checks what the operation wants of it, and makes the place
// for the output.
func (a *controllerActor) prepare(op *statepb.Operation) proto.Message {
	m := op.GetSpec().GetMap()
	files, err := a.cfg.Storage.List(a.reading.ctx, m.GetInputPaths())
	input := inputRecord(files)
	if err == nil {
		var jobs []*statepb.Slices
		if jobs, err = cut(m, input, a.cfg.MaxJobs()); err == nil {
			err = checkSize(input, jobs)
		}
	}
	if err == nil {
		err = a.mayHave(a.reading.ctx, op)
	}
	if err == nil {
		err = a.cfg.Storage.Prepare(a.reading.ctx, outputOf(op))
	}
	if a.reading.ctx.Err() != nil {
		return nil
	}
	return prepared(a.cfg.Now(), op, a.cfg.Epoch, input, err)
}

// define says what each job reads.
func (a *controllerActor) define(op *statepb.Operation, step *commandpb.DefineTasks) proto.Message {
	jobs, err := cut(op.GetSpec().GetMap(), a.cfg.State.Input(op.GetId()), a.cfg.MaxJobs())
	if err != nil {
		// It could be cut when it was prepared: the cluster allows fewer jobs since. It
		// waits until the limit is raised, or somebody aborts it.
		return a.held(err.Error())
	}
	step.Tasks[0].JobCount, step.Tasks[0].Slices = int32(len(jobs)), jobs
	return step
}

// publish makes the output of what jobs have written.
func (a *controllerActor) publish(ctx context.Context, op *statepb.Operation) proto.Message {
	task := op.GetSpec().GetTasks()[0].GetName()
	written := a.cfg.State.Parts(op.GetId(), task)
	parts, err := inOrder(written, a.cfg.State.Progress(op.GetId(), task))
	if err == nil {
		err = a.publishParts(ctx, op, parts)
	}
	if ctx.Err() != nil {
		return nil
	}
	return published(a.cfg.Now(), op, a.cfg.Epoch, written, err)
}

func (a *controllerActor) publishParts(ctx context.Context, op *statepb.Operation, parts []storage.Part) (err error) {
	pause := a.cfg.RetryAfter
	for range publishAttempts {
		err = a.cfg.Storage.Publish(ctx, outputOf(op), parts)
		if err == nil || errors.Is(err, storage.ErrExists) || errors.Is(err, storage.ErrBroken) {
			return err
		}
		a.cfg.Logger.Warn("output not published yet; retrying", "operation", op.GetId(), "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause *= 2
	}
	return err
}

// known makes sure that the input is at hand, and into how many jobs it was cut first.
func (a *controllerActor) known(op *statepb.Operation) bool {
	if a.reading.input != nil {
		return true
	}
	input := a.cfg.State.Input(op.GetId())
	// How many jobs an operation may have may have changed since it was cut.
	jobs, err := cut(op.GetSpec().GetMap(), input, math.MaxInt32)
	if input == nil || err != nil {
		return false
	}
	a.reading.input, a.reading.initial = input, len(jobs)
	return true
}

// addFeed says what a job reads and where it writes, and answers. URLs are made off the
// actor's goroutine: credentials may have to be asked for.
func (a *controllerActor) addFeed(op *statepb.Operation, allocation *statepb.Allocation, spec *actorpb.JobSpec, reply func(proto.Message)) {
	refuse := func(err error) {
		reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: err.Error(), RetryMillis: 1000})
	}
	if !a.known(op) {
		refuse(fmt.Errorf("feed of job %s: input not listed yet", allocation.GetJobId()))
		return
	}
	given := a.cfg.State.Slices(op.GetId(), allocation.GetTask(), allocation.GetCookie())
	feed, err := feed(op.GetSpec().GetMap(), a.reading.input, given, allocation)
	if err != nil {
		refuse(err)
		return
	}
	spec.Feed, spec.JobCount = feed, int32(a.reading.initial)
	spec.Environment["WEIR_TASK_JOB_COUNT"] = strconv.Itoa(a.reading.initial)
	ctx, out := a.reading.ctx, outputOf(op)
	go func() {
		if err := a.place(ctx, out, feed); err != nil {
			refuse(err)
			return
		}
		a.answer(spec, reply)
	}()
}

// place says where the files and the output of a feed are.
func (a *controllerActor) place(ctx context.Context, out storage.Output, feed *actorpb.JobFeed) (err error) {
	for _, part := range feed.GetParts() {
		if part.Source, err = a.cfg.Storage.Source(ctx, part.GetFile()); err != nil {
			return err
		}
	}
	feed.Output, err = a.cfg.Storage.Destination(ctx, out, feed.GetOutputPart())
	return err
}

// endedRead completes the record of a job that reads, and reports whether that can be
// done; if not, it has answered.
func (a *controllerActor) endedRead(op *statepb.Operation, allocation *statepb.Allocation, job *statepb.FinishedJob, reply func(proto.Message)) bool {
	given := a.cfg.State.Slices(op.GetId(), allocation.GetTask(), allocation.GetCookie())
	if !a.known(op) || len(given) == 0 {
		// Or the job has just been counted.
		reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: fmt.Sprintf("result of job %s: input not listed yet", job.GetJobId()), RetryMillis: 1000})
		return false
	}
	m, before := op.GetSpec().GetMap(), suspicion{}
	if job.GetState() == lifecycle.JobFailed.String() {
		before = *a.suspicion(op, allocation)
	}
	if classifyRead(job, m, allocation, given, before) {
		left := m.GetMaxSkippedRecords() - a.cfg.State.Progress(op.GetId(), job.GetTask()).GetSkippedRecords() - a.ends.Skipped()
		blame(job, a.reading.input.GetFiles()[given[0].GetFile()], given[0], left)
	}
	return true
}

// note takes it that the end of a job that reads is on its way: its agent may have been sent
// away with it before, and it counts once.
func (a *controllerActor) note(op *statepb.Operation, allocation *statepb.Allocation, job *statepb.FinishedJob) {
	if job.GetState() == lifecycle.JobFailed.String() {
		a.suspicion(op, allocation).note(job)
	}
}

// suspicion returns how a cookie has failed before.
func (a *controllerActor) suspicion(op *statepb.Operation, allocation *statepb.Allocation) *suspicion {
	cookie := allocation.GetCookie()
	s := a.reading.suspicions[cookie]
	if s == nil {
		seen := suspect(a.cfg.State.Failed(op.GetId(), allocation.GetTask()), cookie, a.reading.initial)
		s = &seen
		a.reading.suspicions[cookie] = s
	}
	return s
}
