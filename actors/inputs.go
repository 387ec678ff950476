package actors

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// Inputs and outputs of map operations are returned without a copy: the state only adds to them,
// and never changes existing ones.

// Input implements the InputState of controllers.
func (r *records) Input(operation string) (input *statepb.Input) {
	r.store.View(func(s *state.State) { input = s.Input(scheduling.OperationID(operation)) })
	return input
}

// Slices implements the InputState of controllers.
func (r *records) Slices(operation, task string, cookie int32) (slices []*statepb.Slice) {
	r.store.View(func(s *state.State) {
		slices = s.Slices(scheduling.OperationID(operation), scheduling.TaskName(task), scheduling.Cookie(cookie))
	})
	return slices
}

// Parts implements the InputState of controllers.
func (r *records) Parts(operation, task string) (parts []*statepb.CompletedPart) {
	r.store.View(func(s *state.State) {
		parts = s.Parts(scheduling.OperationID(operation), scheduling.TaskName(task))
	})
	return parts
}

// Progress implements the InputState of controllers.
func (r *records) Progress(operation, task string) (progress *statepb.InputProgress) {
	r.task(operation, task, func(t *statepb.Task) { progress = proto.CloneOf(t.GetInput()) })
	return progress
}

// task calls `read` with a task of an operation, if the task exists.
func (r *records) task(operation, name string, read func(*statepb.Task)) {
	r.store.View(func(s *state.State) {
		op, _ := s.Operation(scheduling.OperationID(operation))
		if i := slices.IndexFunc(op.GetTasks(), func(t *statepb.Task) bool { return t.GetName() == name }); i >= 0 {
			read(op.GetTasks()[i])
		}
	})
}

// Failed implements the InputState of controllers.
func (r *records) Failed(operation, task string) (failed []*statepb.FinishedJob) {
	r.store.View(func(s *state.State) {
		op, _ := s.Operation(scheduling.OperationID(operation))
		for _, job := range op.GetFinishedJobs() {
			if job.GetTask() == task && job.GetState() == lifecycle.JobFailed.String() {
				failed = append(failed, job)
			}
		}
	})
	return failed
}

// maxJobs is how many jobs an operation may have.
func (r *records) maxJobs() (most int) {
	r.store.View(func(s *state.State) { most = int(s.Limits().GetJobsPerOperation()) })
	return most
}
