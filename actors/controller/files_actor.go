package controller

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// checked returns what prepares an operation whose jobs find files, or keep some: it fails
// when they may not. nil: the step is complete as it is.
func (a *controllerActor) checked(op *statepb.Operation, step proto.Message) func() proto.Message {
	prepare, ok := step.(*commandpb.PrepareOperation)
	if !ok || !hasFiles(op) {
		return nil
	}
	return func() proto.Message {
		err := a.mayHave(a.reading.ctx, op)
		if a.reading.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			prepare.Error = &statepb.Error{Code: int32(lifecycle.CodeFailedToPrepare), Message: err.Error()}
		}
		return prepare
	}
}

func hasFiles(op *statepb.Operation) bool {
	for _, task := range op.GetSpec().GetTasks() {
		if len(task.GetFiles())+len(task.GetOutputs()) > 0 {
			return true
		}
	}
	return false
}

// mayHave checks that jobs may have the files that they are to find, and put those that are
// kept where they are to be. A store that does not answer is asked again by each job.
func (a *controllerActor) mayHave(ctx context.Context, op *statepb.Operation) error {
	for _, task := range op.GetSpec().GetTasks() {
		for _, file := range task.GetFiles() {
			if _, err := a.cfg.Storage.FileSource(ctx, file.GetSource()); err != nil && !errors.Is(err, storage.ErrUnavailable) {
				return err
			}
		}
		for _, kept := range task.GetOutputs() {
			if _, err := a.cfg.Storage.FileDestination(ctx, kept.GetDestination()); err != nil && !errors.Is(err, storage.ErrUnavailable) {
				return err
			}
		}
	}
	return nil
}

// answer answers a node with what a job runs, once it is known where its files are and go.
// URLs are made off the actor's goroutine: credentials may have to be asked for.
func (a *controllerActor) answer(spec *actorpb.JobSpec, reply func(proto.Message)) {
	if len(spec.GetFiles()) == 0 && len(spec.GetOutputs()) == 0 {
		reply(spec)
		return
	}
	ctx := a.reading.ctx
	go func() {
		if err := a.placeFiles(ctx, spec); err != nil {
			reply(&actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: err.Error(), RetryMillis: 1000})
			return
		}
		reply(spec)
	}()
}

// placeFiles says where the files of a job's workspace come from, and go.
func (a *controllerActor) placeFiles(ctx context.Context, spec *actorpb.JobSpec) (err error) {
	for _, file := range spec.GetFiles() {
		if file.Source, err = a.cfg.Storage.FileSource(ctx, file.GetSource()); err != nil {
			return err
		}
	}
	for _, kept := range spec.GetOutputs() {
		if kept.Destination, err = a.cfg.Storage.FileDestination(ctx, kept.GetDestination()); err != nil {
			return err
		}
	}
	return nil
}
