package api

import (
	"fmt"

	"weir/messages/explainpb"
	"weir/messages/statepb"
	"weir/scheduling/resource"
)

// reserveFacts returns, by task, a fact about the memory that a job needs to start: the
// reserve of its processes, a part of its memory_limit, and the memory of its job proxy.
func reserveFacts(op *statepb.Operation) map[string]*explainpb.Fact {
	facts := map[string]*explainpb.Fact{}
	for _, task := range op.GetTasks() {
		reserve, limit := task.GetMemory().GetReserve(), describedTask(op, task.GetName()).GetMemoryLimit()
		if reserve == nil || limit == 0 {
			continue
		}
		from := "from its settings: nothing learned yet"
		switch n := task.GetMemory().GetSampleCount(); {
		case n == 1:
			from = "learned from 1 job"
		case n > 1:
			from = fmt.Sprintf("learned from %d jobs", n)
		case task.GetMemory().GetFromProfile():
			from = "learned from similar earlier operations"
		}
		facts[task.GetName()] = &explainpb.Fact{
			Code: factMemoryReserve, Task: task.GetName(), Resource: resource.Memory.String(), Setting: "memory_limit", Value: float64(reserve.GetUser()), Bound: float64(limit),
			Text: fmt.Sprintf("a job of task %s needs its memory reserve to start: %s for its processes, %.0f%% of its memory_limit of %s (%s), and %s for its job proxy",
				task.GetName(), resource.FormatSize(reserve.GetUser()), 100*float64(reserve.GetUser())/float64(limit), resource.FormatSize(limit), from,
				resource.FormatSize(reserve.GetProxy())),
		}
	}
	return facts
}

// addReserves adds the memory reserve of each task for which nodes have too little memory.
func addReserves(x *explainpb.Explanation, reserves map[string]*explainpb.Fact) {
	told := map[string]bool{}
	memory := resource.Memory.String()
	for _, t := range x.GetTasks() {
		nodes, f := t.GetNodes(), reserves[t.GetName()]
		if f != nil && !told[t.GetName()] && t.GetDedicatedMemory() == 0 && nodes.GetLackingBy()[memory]+nodes.GetTooSmallBy()[memory] > 0 {
			told[t.GetName()] = true
			tell(x, f)
		}
	}
}
