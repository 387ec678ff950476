package api

import (
	"fmt"
	"maps"
	"os/user"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/alert"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// The alerts that are possible before any job of an operation has run.
const (
	killedGracefully = "graceful_without_signal"
	tooLarge         = "too_large"
	unknownUser      = "unknown_user"
)

// warnings returns the warnings for the user who starts an operation: the settings that its pools
// cap, and the cautions about its tasks.
func (s operations) warnings(spec *statepb.OperationSpec, bounded []string) []string {
	var alerts []*apipb.Alert
	s.cfg.Store.View(func(st *state.State) { alerts = cautions(st, spec, optionsOf(spec)) })
	for _, a := range append(alerts, unknownUsers(spec, nil)...) {
		bounded = append(bounded, fmt.Sprintf("task %s: %s: %s", a.GetTask(), a.GetMessage(), a.GetAdvice()))
	}
	return bounded
}

// optionsOf returns the scheduling options of a spec: those for all trees and those per tree.
func optionsOf(spec *statepb.OperationSpec) []*structpb.Struct {
	return append(slices.Collect(maps.Values(spec.GetOptionsPerTree())), spec.GetOptions())
}

// cautions returns the alerts that a spec causes before any job runs. It considers the options that
// the spec itself sets, without those inherited from pools, and the present nodes.
func cautions(st *state.State, spec *statepb.OperationSpec, options []*structpb.Struct) (found []*apipb.Alert) {
	graceful := slices.ContainsFunc(options, func(document *structpb.Struct) bool {
		read, err := pooltree.ReadOperationOptions(document.AsMap())
		return err == nil && read.Effective(pooltree.Effective{}).Graceful
	})
	for _, task := range spec.GetTasks() {
		tell := func(name, message, advice string) {
			found = append(found, &apipb.Alert{Name: name, Task: task.GetName(), Message: message, Advice: advice})
		}
		if graceful && !spec.Interruptible(task) {
			tell(killedGracefully, "preemption_mode is graceful, but its jobs have neither input nor an interruption_signal: they are killed at once when beyond the fair share",
				"add an interruption_signal, or leave preemption_mode out")
		}
		if lack := lacking(st, task); lack != "" {
			tell(tooLarge, lack+": none can start", "ask for less, or wait for a larger node")
		}
	}
	return found
}

// unknownUsers returns alerts for user and group names that this replica does not know. Agents do
// not report the names they know, and a directory service cannot be listed, so the name may still
// be valid on nodes; a task with completed jobs therefore gets no alert. The lookup may ask a
// remote server: do not call it inside Store.View.
func unknownUsers(spec *statepb.OperationSpec, completed map[string]bool) (found []*apipb.Alert) {
	for _, task := range spec.GetTasks() {
		for _, who := range []struct {
			field, name string
			find        func(string) error
		}{
			{"user", task.GetUser(), func(name string) error { _, err := user.Lookup(name); return err }},
			{"group", task.GetGroup(), func(name string) error { _, err := user.LookupGroup(name); return err }},
		} {
			if who.name == "" || isNumber(who.name) || completed[task.GetName()] || who.find(who.name) == nil {
				continue
			}
			found = append(found, &apipb.Alert{
				Name: unknownUser, Task: task.GetName(), Advice: "write the name of one that the nodes have, or a number",
				Message: fmt.Sprintf("%s %q is not known on the replica that answers; jobs fail on nodes where it is not known either", who.field, who.name),
			})
		}
	}
	return found
}

// lacking says of which resource a job of a task needs more than any node has; empty if there
// is none. Memory is not checked: a job may start with less than its memory_limit.
func lacking(st *state.State, task *statepb.TaskSpec) string {
	job := resource.Amounts{CPU: resource.Hundredths(task.GetCpuLimitHundredths()), GPU: task.GetGpuLimit(), Network: task.GetNetworkLimit()}
	var largest resource.Amounts
	nodes := st.Nodes()
	for _, node := range nodes {
		largest = largest.Max(node.GetResources().Amounts())
	}
	switch k, lacks := job.Lacking(largest); {
	case !lacks || len(nodes) == 0:
		return ""
	case k == resource.CPU:
		return fmt.Sprintf("no node has more than %v cores, but a job needs %v", largest.CPU, job.CPU)
	default:
		return fmt.Sprintf("no node has more than %d of %s, but a job needs %d", largest.Of(k), k, job.Of(k))
	}
}

func isNumber(name string) bool {
	return !slices.ContainsFunc([]rune(name), func(r rune) bool { return r < '0' || r > '9' })
}

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
