package api

import (
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/alert"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// boundedSetting is the alert of an operation whose pool bounds what it has set.
const boundedSetting = "bounded_setting"

// alertsOf returns what the owner of an operation can do better.
func alertsOf(st *state.State, op *statepb.Operation) (shown []*apipb.Alert) {
	measured := st.Statistics(scheduling.OperationID(op.GetId()))
	tasks := make([]alert.Task, 0, len(measured))
	for i, of := range measured {
		record := op.GetTasks()[i]
		described := describedTask(op, record.GetName())
		memory := op.GetSpec().MemoryTask(described)
		tasks = append(tasks, alert.Task{
			Name: record.GetName(), Limit: memory.Limit, Tmpfs: memory.Tmpfs, CPU: resource.Hundredths(described.GetCpuLimitHundredths()),
			Overdrafts: record.GetCounters().GetAbortedByReason()[lifecycle.AbortResourceOverdraft.String()], Statistics: of.Set,
		})
	}
	for _, a := range alert.Of(tasks) {
		shown = append(shown, &apipb.Alert{Name: a.Name, Task: a.Task, Message: a.Message, Advice: a.Advice})
	}
	var options []*structpb.Struct
	for _, in := range op.GetTrees() {
		options = append(options, in.GetOptions())
	}
	shown = append(shown, cautions(st, op.GetSpec(), options)...)
	for _, line := range st.Bounded(op) {
		shown = append(shown, &apipb.Alert{Name: boundedSetting, Message: line, Advice: "set it within the bound, or ask who manages the pool for another one"})
	}
	return shown
}
