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

// publishAttempts is how often publishing an output is tried, for example while a disk is full or a
// store is unavailable. The pauses double.
const publishAttempts = 8

// Storage provides input and accepts output. *storage.Storage implements it.
type Storage interface {
	List(ctx context.Context, paths []string) ([]*statepb.InputFile, error)
	Source(ctx context.Context, file *statepb.InputFile) (string, error)
	Prepare(ctx context.Context, out storage.Output) error
	Destination(ctx context.Context, out storage.Output, part string) (string, error)
	Publish(ctx context.Context, out storage.Output, parts []storage.Part) error
	FileSource(ctx context.Context, path string) (string, error)
	FileDestination(ctx context.Context, path string) (string, error)
}

// InputState reads the input and output state of map operations. Results must not be changed.
type InputState interface {
	// Input returns the input of the operation; nil before it is prepared.
	Input(operation string) *statepb.Input
	// Slices returns the slices of a cookie that is not completed.
	Slices(operation, task string, cookie int32) []*statepb.Slice
	// Parts returns the input and output of completed cookies.
	Parts(operation, task string) []*statepb.CompletedPart
	// Progress returns how much of the input has been read.
	Progress(operation, task string) *statepb.InputProgress
	// Failed returns the failed jobs that are still on record, oldest first.
	Failed(operation, task string) []*statepb.FinishedJob
}

// reading is the additional state of a map operation's controller.
type reading struct {
	// ctx ends with the actor's life; publish cancels a running publication.
	ctx     context.Context
	cancel  context.CancelFunc
	publish context.CancelFunc
	// `input` never changes once it is set. `initial` is the number of jobs into which the input
	// was cut.
	input   *statepb.Input
	initial int
	// suspicions holds the suspicion of each cookie that has failed.
	suspicions map[int32]*suspicion
}

func newReading() *reading {
	m := &reading{publish: func() {}, suspicions: map[int32]*suspicion{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// reads reports whether an operation has an input.
func reads(op *statepb.Operation) bool { return op.GetSpec().GetMap() != nil }

// longStep returns a function that makes the next step, if that takes time; nil means that `step`
// can be proposed as it is. `step` is what would be the next step without an input; the function
// completes it for a map operation.
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

// callOff cancels a publication that is no longer needed.
func (a *controllerActor) callOff(op *statepb.Operation) {
	if op.GetState() != lifecycle.Completing.String() {
		a.reading.publish()
	}
}

// take runs `work` off the actor's goroutine. `work` returns a step, or nil if there is none.
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

// prepare lists the input, checks it against the spec, and creates the folder for the output.
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
	return prepared(op, a.cfg.Epoch, input, err)
}

// define sets the slices that each job reads.
func (a *controllerActor) define(op *statepb.Operation, step *commandpb.DefineTasks) proto.Message {
	jobs, err := cut(op.GetSpec().GetMap(), a.cfg.State.Input(op.GetId()), a.cfg.MaxJobs())
	if err != nil {
		// The input could be cut when it was prepared, but the limit of jobs has been lowered
		// since. The operation waits until the limit is raised or the operation is aborted.
		return a.held(err.Error())
	}
	step.Tasks[0].JobCount, step.Tasks[0].Slices = int32(len(jobs)), jobs
	return step
}

// publish publishes the output of completed jobs.
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
	return published(op, a.cfg.Epoch, written, err)
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

// known reports whether this actor knows the input, and the number of jobs into which the input was
// first cut. If it does not, known tries to read both from the state.
func (a *controllerActor) known(op *statepb.Operation) bool {
	if a.reading.input != nil {
		return true
	}
	input := a.cfg.State.Input(op.GetId())
	// The limit of jobs may have changed since the input was cut.
	jobs, err := cut(op.GetSpec().GetMap(), input, math.MaxInt32)
	if input == nil || err != nil {
		return false
	}
	a.reading.input, a.reading.initial = input, len(jobs)
	return true
}

// addFeed adds to spec what a job reads and where it writes, and replies with the spec. It creates
// URLs outside the actor's goroutine, because credentials may have to be requested.
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

// place sets the locations of a feed's files and output.
func (a *controllerActor) place(ctx context.Context, out storage.Output, feed *actorpb.JobFeed) (err error) {
	for _, part := range feed.GetParts() {
		if part.Source, err = a.cfg.Storage.Source(ctx, part.GetFile()); err != nil {
			return err
		}
	}
	feed.Output, err = a.cfg.Storage.Destination(ctx, out, feed.GetOutputPart())
	return err
}

// endedRead completes the record of a job that reads input, and reports whether that was possible;
// if it was not, endedRead has already replied to the agent.
func (a *controllerActor) endedRead(op *statepb.Operation, allocation *statepb.Allocation, job *statepb.FinishedJob, reply func(proto.Message)) bool {
	given := a.cfg.State.Slices(op.GetId(), allocation.GetTask(), allocation.GetCookie())
	if !a.known(op) || len(given) == 0 {
		// Another possible cause: the result has just been counted, so the cookie has no slices.
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

// note counts a failure. Call it only once the failure's record is queued, because an agent whose
// report is refused sends the report again.
func (a *controllerActor) note(op *statepb.Operation, allocation *statepb.Allocation, job *statepb.FinishedJob) {
	if job.GetState() == lifecycle.JobFailed.String() {
		a.suspicion(op, allocation).note(job)
	}
}

// suspicion returns how often and how a cookie has failed before.
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
