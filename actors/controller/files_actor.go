package controller

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// checked returns a function that checks the files of an operation's tasks if step prepares the
// operation. The function adds an error to the step if the files are not allowed. checked returns
// nil if the step can be proposed as it is.
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
	return slices.ContainsFunc(op.GetSpec().GetTasks(), func(task *statepb.TaskSpec) bool { return len(task.GetFiles())+len(task.GetOutputs()) > 0 })
}

// mayHave checks that jobs may read their input files and write their kept files. An unavailable
// store is no error here, because each job tries it again.
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

// answer replies to a node with the spec of a job and the locations of its files. It creates URLs
// outside the actor's goroutine, because credentials may have to be requested.
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

// placeFiles sets the sources and destinations of the files in a job's workspace.
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
