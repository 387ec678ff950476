package api

import (
	"slices"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/alert"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// boundedSetting is the alert for an operation setting that its pool caps.
const boundedSetting = "bounded_setting"

// alertsOf returns the alerts of an operation: what its owner should change.
func alertsOf(st *state.State, op *statepb.Operation) []*apipb.Alert {
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
	ofJobs := mapped(alert.Of(tasks), func(a alert.Alert) *apipb.Alert {
		return &apipb.Alert{Name: a.Name, Task: a.Task, Message: a.Message, Advice: a.Advice}
	})
	bounded := mapped(st.Bounded(op), func(line string) *apipb.Alert {
		return &apipb.Alert{Name: boundedSetting, Message: line, Advice: "set it within the bound, or ask the manager of the pool for another bound"}
	})
	return slices.Concat(ofJobs, cautions(st, op.GetSpec(), mapped(op.GetTrees(), (*statepb.OperationTree).GetOptions)), bounded)
}
