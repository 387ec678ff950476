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
	task := taskOf(op, allocation)
	if task == nil {
		return nil, fmt.Errorf("spec of job %s: operation %s has no task %q", allocation.GetJobId(), op.GetId(), allocation.GetTask())
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

		InterruptionSignal:    task.GetInterruptionSignal(),
		SignalRootProcessOnly: task.GetSignalRootProcessOnly(),
		RestartExitCode:       task.RestartExitCode,
	}, nil
}

// taskOf returns the task of an allocation; nil: the operation does not have it.
func taskOf(op *statepb.Operation, allocation *statepb.Allocation) *statepb.TaskSpec {
	for _, task := range op.GetSpec().GetTasks() {
		if task.GetName() == allocation.GetTask() {
			return task
		}
	}
	return nil
}

// Signal returns what others are told of a job that has to leave.
func Signal(now time.Time, op *statepb.Operation, allocation *statepb.Allocation) *actorpb.InterruptionSignal {
	order := op.StopOrderFor(allocation)
	return &actorpb.InterruptionSignal{
		OperationId: op.GetId(), JobId: allocation.GetJobId(), Node: allocation.GetNode(), Reason: order.Why(),
		Time: timestamppb.New(now), Deadline: timestamppb.New(now.Add(order.Left(now))),
		Task: allocation.GetTask(), Cookie: allocation.GetCookie(), Ports: allocation.GetPorts(), StartTime: allocation.GetStartTime(),
	}
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
