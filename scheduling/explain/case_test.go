package explain_test

import (
	"strings"
	"testing"
	"time"

	"weir/scheduling/allocation"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// TestCase asks why a job of 4 slots waits, of values that no engine has noted.
func TestCase(t *testing.T) {
	slots := func(n int64) resource.Amounts { return resource.Amounts{UserSlots: n, Memory: 1} }
	needs := slots(4)
	row := func(limits, free int64, open bool) explain.Row {
		return explain.Row{Node: "n1", Limits: slots(limits), Free: slots(free), Spare: slots(free), Schedulable: open}
	}
	limits := []explain.Limits{
		{Held: slots(2), Set: resource.Infinite, Ceiling: resource.Infinite}, {Pool: "ads", Held: slots(2), Set: slots(5), Ceiling: resource.Infinite},
	}
	for name, tc := range map[string]struct {
		node        explain.Row
		task        explain.Task
		wantVerdict string
		wantText    string
	}{
		"no node is large enough": {node: row(3, 3, true), wantVerdict: explain.FactTooSmall, wantText: "no node is big enough: a job of task main needs 4 slots, 1 B memory, but 1 node has less user_slots even when empty: the largest, n1, has 3 slots; until"},
		"the only node drains":    {node: row(8, 8, false), wantVerdict: explain.FactNoNodes, wantText: "no node in the tree accepts jobs"},
		"a pool is at its limit": {
			node: row(8, 8, true), task: explain.Task{Limit: explain.JobLimit(limits, needs, false)},
			wantVerdict: explain.FactLimit, wantText: `pool "ads"'s resource_limits are reached: it uses 2 slots of at most 5 slots`,
		},
		"there is room": {node: row(8, 8, true), wantVerdict: explain.FactStartsSoon, wantText: "a job fits on 1 node"},
	} {
		t.Run(name, func(t *testing.T) {
			task := tc.task
			task.TaskID, task.Pending, task.PerJob = allocation.TaskID{Name: "main"}, 1, needs
			q := explain.Case{
				Now: time.Unix(1, 0), Survey: &explain.Survey{Rows: []explain.Row{tc.node}},
				Asks: []explain.Asked{{ID: "op", Pending: 1, Tasks: []explain.Task{task}}},
			}
			if !q.Reason() {
				t.Fatal("it searches for victims, and nobody starves")
			}
			x := q.Answer
			if x.Verdict != tc.wantVerdict || !strings.HasPrefix(x.Facts[0].Text, tc.wantText) {
				t.Errorf("got %s: %s; want %s: %s", x.Verdict, x.Facts[0].Text, tc.wantVerdict, tc.wantText)
			}
			if len(x.Tasks) != 1 || x.Tasks[0].Nodes.All != 1 {
				t.Errorf("tasks %+v, want one that knows one node", x.Tasks)
			}
		})
	}
}
