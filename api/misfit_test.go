package api

import (
	"fmt"
	"strings"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func TestMisfit(t *testing.T) {
	node := func(id, tree string, cpu, memory int64) *statepb.Node {
		return &statepb.Node{Id: id, Tree: tree, State: statepb.NodeOnline, Resources: &statepb.Resources{UserSlots: 8, CpuHundredths: cpu * 100, Memory: memory << 30}}
	}
	both := forest{"default": hosts{node("n1", "default", 4, 64), node("n2", "default", 16, 8)}}
	two := forest{"default": hosts{node("n1", "default", 4, 64)}, "gpu": hosts{node("n2", "gpu", 16, 8)}, "": hosts{node("n3", "", 500, 500)}}
	tests := map[string]struct {
		cpu, memory, running int64
		state                string
		nodes                forest
		trees                []string
		want                 string
	}{
		"one node is enough":          {16, 8, 0, "running", both, []string{"default"}, ""},
		"too many cores":              {500, 1, 0, "running", both, []string{"default"}, `a job of task "t" asks for 500 cpu, more than any online node of its pool trees has: the largest, n2, has 16 cpu`},
		"too much memory":             {1, 65, 0, "running", both, []string{"default"}, `a job of task "t" asks for 65.0 GiB memory, more than any online node of its pool trees has: the largest, n1, has 64.0 GiB memory`},
		"never both at once":          {16, 64, 0, "running", both, []string{"default"}, `a job of task "t" asks for user_slots=1 cpu=16 memory=68719476736, and no online node of its pool trees has all of that at once`},
		"no node: status tells of it": {500, 1, 0, "running", nil, []string{"default"}, ""},
		"others of it run":            {500, 1, 1, "running", both, []string{"default"}, ""},
		"too much for its tree":       {16, 8, 0, "running", two, []string{"default"}, `a job of task "t" asks for 16 cpu, more than any online node of its pool trees has: the largest, n1, has 4 cpu`},
		"enough in its other tree":    {16, 8, 0, "running", two, []string{"default", "gpu"}, ""},
		"it waits for something else": {500, 1, 0, "pending", both, []string{"default"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			op := &statepb.Operation{State: test.state, Tasks: []*statepb.Task{{
				Name: "t", Counters: &statepb.JobCounters{Total: 2, Pending: 1, Running: test.running},
				JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: test.cpu * 100, Memory: test.memory << 30},
			}}}
			for _, tree := range test.trees {
				op.Trees = append(op.Trees, &statepb.OperationTree{Tree: tree})
			}
			if got := test.nodes.misfit(op); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMisfitIsShown where people look: at the operation, and in the status.
func TestMisfitIsShown(t *testing.T) {
	s := newSite(t)
	id := s.run(1)
	named := `{"operation": "` + id + `"}`
	want(t, s.get("OperationService/Get", named), "", "operation", "pending_reason")
	// The node comes back with less.
	s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
		Id: "n1", Incarnation: 2, Version: "v2", Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 50, Memory: 1 << 30},
	}})
	why := `a job of task "t" asks for 1 cpu, more than any online node of its pool trees has: the largest, n1, has 0.5 cpu`
	want(t, s.get("OperationService/Get", named), why, "operation", "pending_reason")
	if problems := fmt.Sprint(at(t, s.get("ClusterService/Status", "{}"), "problems")); !strings.Contains(problems, "operation "+id+" waits: "+why) {
		t.Errorf("the status says %s", problems)
	}
}
