// Package controller defines what an operation's jobs run and interprets their results.
//
// One actor per operation runs on the replica that the operation is assigned to. Its proposals
// contain the epoch of the assignment: once another replica has a higher epoch, the state machine
// refuses them.
package controller

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// Next returns the next command of an operation's controller: its preparation, or the definition
// of its tasks (J.4); nil if there is none. expect returns the initial memory state of a task.
func Next(op *statepb.Operation, epoch uint64, expect func(*statepb.TaskSpec) *statepb.TaskMemory) proto.Message {
	switch op.GetState() {
	case lifecycle.Initializing.String():
		return &commandpb.PrepareOperation{OperationId: op.GetId(), Epoch: epoch, Admit: true, Tasks: tasksOf(op, expect)}
	case lifecycle.Materializing.String():
		return &commandpb.DefineTasks{OperationId: op.GetId(), Epoch: epoch, Tasks: tasksOf(op, expect)}
	default:
		return nil
	}
}

func tasksOf(op *statepb.Operation, expect func(*statepb.TaskSpec) *statepb.TaskMemory) (tasks []*commandpb.TaskDefinition) {
	for _, task := range op.GetSpec().GetTasks() {
		known := expect(task)
		tasks = append(tasks, &commandpb.TaskDefinition{
			Name:         task.GetName(),
			JobCount:     task.GetJobCount(),
			JobResources: statepb.NewResources(Needs(task, known.GetReserve())),
			Memory:       known,
		})
	}
	return tasks
}

// Needs returns the resources that one job of the task is granted with this reserve.
func Needs(task *statepb.TaskSpec, reserve *statepb.JobReserve) resource.Amounts {
	return resource.Amounts{
		UserSlots: 1,
		CPU:       resource.Hundredths(task.GetCpuLimitHundredths()),
		GPU:       task.GetGpuLimit(),
		Memory:    reserve.Total(),
		Network:   task.GetNetworkLimit(),
	}
}

// taskOf returns the task of an allocation; nil if the operation does not have it.
func taskOf(op *statepb.Operation, allocation *statepb.Allocation) *statepb.TaskSpec {
	for _, task := range op.GetSpec().GetTasks() {
		if task.GetName() == allocation.GetTask() {
			return task
		}
	}
	return nil
}

// Signal returns the signal that tells others that a job has been ordered to leave.
func Signal(now time.Time, op *statepb.Operation, allocation *statepb.Allocation) *actorpb.InterruptionSignal {
	order := op.StopOrderFor(allocation)
	return &actorpb.InterruptionSignal{
		OperationId: op.GetId(), JobId: allocation.GetJobId(), Node: allocation.GetNode(), Reason: order.Why(),
		Time: timestamppb.New(now), Deadline: timestamppb.New(now.Add(order.Left(now))),
		Task: allocation.GetTask(), Cookie: allocation.GetCookie(), Ports: allocation.GetPorts(), StartTime: allocation.GetStartTime(),
	}
}
