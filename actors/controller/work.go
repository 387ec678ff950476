// Package controller knows what an operation's jobs run and what their ends mean.
//
// One actor an operation lives on the replica that the operation is assigned to.
// It works with the assignment's epoch: once another replica has a higher one,
// the state machine refuses whatever this one still proposes.
package controller

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// Next returns what the controller of an operation owes it now: preparation, or
// its tasks (J.4). nil: nothing.
func Next(now time.Time, op *statepb.Operation, epoch uint64) proto.Message {
	switch op.GetState() {
	case lifecycle.Initializing.String():
		return &commandpb.PrepareOperation{OperationId: op.GetId(), Epoch: epoch, Time: timestamppb.New(now)}
	case lifecycle.Materializing.String():
		return defineTasks(now, op, epoch)
	default:
		return nil
	}
}

func defineTasks(now time.Time, op *statepb.Operation, epoch uint64) *commandpb.DefineTasks {
	msg := &commandpb.DefineTasks{OperationId: op.GetId(), Epoch: epoch, Time: timestamppb.New(now)}
	for _, task := range op.GetSpec().GetTasks() {
		msg.Tasks = append(msg.Tasks, &commandpb.TaskDefinition{
			Name:         task.GetName(),
			JobCount:     task.GetJobCount(),
			JobResources: statepb.NewResources(Needs(task)),
		})
	}
	return msg
}

// Needs returns what one job of the task is granted.
func Needs(task *statepb.TaskSpec) resource.Amounts {
	return resource.Amounts{
		UserSlots: 1,
		CPU:       resource.Hundredths(task.GetCpuLimitHundredths()),
		GPU:       task.GetGpuLimit(),
		Memory:    task.GetMemoryLimit(),
		Network:   task.GetNetworkLimit(),
	}
}

// Spec returns what a granted job runs. addresses are where the job finds the
// cluster. It fails when the allocation names a task that the operation does not
// have.
func Spec(op *statepb.Operation, allocation *statepb.Allocation, addresses []string) (*actorpb.JobSpec, error) {
	for _, task := range op.GetSpec().GetTasks() {
		if task.GetName() != allocation.GetTask() {
			continue
		}
		return &actorpb.JobSpec{
			JobId:              allocation.GetJobId(),
			OperationId:        op.GetId(),
			Task:               task.GetName(),
			Cookie:             allocation.GetCookie(),
			JobCount:           task.GetJobCount(),
			Argv:               task.GetArgv(),
			Shell:              task.GetShell(),
			Environment:        environment(op, task, allocation, addresses),
			CpuLimitHundredths: task.GetCpuLimitHundredths(),
			MemoryLimit:        task.GetMemoryLimit(),
			JobTimeLimitMillis: task.GetJobTimeLimit().AsDuration().Milliseconds(),
		}, nil
	}
	return nil, fmt.Errorf("spec of job %s: operation %s has no task %q", allocation.GetJobId(), op.GetId(), allocation.GetTask())
}

// environment returns the task's environment and what every job is told.
func environment(op *statepb.Operation, task *statepb.TaskSpec, allocation *statepb.Allocation, addresses []string) map[string]string {
	env := make(map[string]string, len(task.GetEnvironment())+6)
	maps.Copy(env, task.GetEnvironment())
	maps.Copy(env, map[string]string{
		"WEIR_OPERATION_ID":   op.GetId(),
		"WEIR_JOB_ID":         allocation.GetJobId(),
		"WEIR_JOB_COOKIE":     strconv.Itoa(int(allocation.GetCookie())),
		"WEIR_TASK_NAME":      task.GetName(),
		"WEIR_TASK_JOB_COUNT": strconv.Itoa(int(task.GetJobCount())),
		"WEIR_ADDRESSES":      strings.Join(addresses, ","),
	})
	return env
}

// Classify turns an agent's word about the end of a job into the record that is
// committed. An end that the agent cannot name is a failure of its job proxy.
func Classify(ended *actorpb.JobEnded, allocation *statepb.Allocation) *statepb.FinishedJob {
	job := proto.CloneOf(ended.GetJob())
	job.JobId = allocation.GetJobId()
	job.Task = allocation.GetTask()
	job.Cookie = allocation.GetCookie()
	job.Node = allocation.GetNode()
	job.Attempt = allocation.GetAttempt()
	state, err := lifecycle.ParseJobState(job.GetState())
	switch {
	case err == nil && state == lifecycle.JobCompleted:
		job.AbortReason, job.Error = "", nil
	case err == nil && state == lifecycle.JobFailed:
		job.AbortReason = ""
		job.Error = failure(job, ended.GetStderrTail())
	default:
		job.State = lifecycle.JobAborted.String()
		if reason, err := lifecycle.ParseAbortReason(job.GetAbortReason()); err != nil || reason == lifecycle.NotAborted {
			job.AbortReason = lifecycle.AbortJobProxyFailed.String()
		}
	}
	return job
}

// failure completes the error of a failed job with what helps to find its cause.
func failure(job *statepb.FinishedJob, stderrTail []byte) *statepb.Error {
	failed := job.GetError()
	if failed == nil {
		failed = &statepb.Error{Message: fmt.Sprintf("job exited with code %d", job.GetExitCode())}
	}
	if failed.GetCode() == 0 {
		failed.Code = int32(lifecycle.CodeJobFailed)
	}
	attributes := map[string]string{"job_id": job.GetJobId(), "node": job.GetNode(), "task": job.GetTask()}
	if len(stderrTail) > 0 {
		attributes["stderr_tail"] = strings.ToValidUTF8(string(stderrTail), "\uFFFD")
	}
	maps.Copy(attributes, failed.GetAttributes())
	failed.Attributes = attributes
	return failed
}
