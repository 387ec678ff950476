package controller

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// conclusion returns the commands that follow the results of jobs in their log entry, if these end the operation: its
// last step (J.4), and the memory profiles that it leaves. They are refused if the results do not end it after all,
// or if another leader has begun; the operation's actor, and this one, then go by the state.
func (a *controllerActor) conclusion(jobs []*statepb.FinishedJob) []proto.Message {
	op, allocations := a.cfg.State.Operation(a.cfg.Operation)
	if !endsWith(op, allocations, jobs) {
		return nil
	}
	commands := []proto.Message{&commandpb.AdvanceOperation{
		OperationId: op.GetId(), Term: a.cfg.State.Term(), From: lifecycle.Completing.String(), To: lifecycle.Completed.String(),
	}}
	profiles, err := leftWith(op, a.cfg.State, jobs)
	if err != nil {
		// The profiles are saved when the operation has ended.
		return commands
	}
	save := &commandpb.SaveMemoryProfiles{OperationId: op.GetId(), Epoch: a.cfg.Epoch, Profiles: profiles}
	if len(profiles) > 0 && proto.Size(save) <= a.cfg.BatchBytes {
		commands = append(commands, save)
	}
	return commands
}

// endsWith reports whether these results end the operation, as far as its record tells: all its other jobs have
// completed, and so have these.
func endsWith(op *statepb.Operation, allocations int, jobs []*statepb.FinishedJob) bool {
	if op.GetState() != lifecycle.Running.String() || reads(op) || allocations > len(jobs) {
		return false
	}
	for i, task := range op.GetTasks() {
		if task.GetCounters().GetPending() > 0 || op.GetSpec().GetTasks()[i].GetRestartCompletedJobs() {
			return false
		}
	}
	return !slices.ContainsFunc(jobs, func(j *statepb.FinishedJob) bool {
		return j.GetState() != lifecycle.JobCompleted.String() || j.GetRerun()
	})
}

// leftWith returns the memory profiles that an operation leaves when these results are its last.
func leftWith(op *statepb.Operation, of MemoryState, jobs []*statepb.FinishedJob) ([]*commandpb.SavedProfile, error) {
	var tasks []*statepb.Task
	memory := map[string]*statepb.TaskMemory{}
	for _, task := range of.Memory(op.GetId(), true) {
		task = proto.CloneOf(task)
		tasks = append(tasks, task)
		memory[task.GetName()] = task.GetMemory()
	}
	for _, job := range jobs {
		if m := memory[job.GetTask()]; m != nil && job.GetSample() != nil {
			m.Samples, m.SampleCount = append(m.Samples, job.GetSample()), m.GetSampleCount()+1
		}
	}
	lessons := NewLessons(op.GetSpec())
	if err := lessons.Take(tasks); err != nil {
		return nil, err
	}
	return lessons.Leave(op.GetId(), of.Profile), nil
}
