package api

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

func TestMisfit(t *testing.T) {
	node := func(id, tree string, cpu, memory int64) *statepb.Node {
		return &statepb.Node{Id: id, Tree: tree, State: statepb.NodeOnline, Resources: &statepb.Resources{UserSlots: 8, CpuHundredths: cpu * 100, Memory: memory << 30}}
	}
	both := map[string]hosts{"default": {node("n1", "default", 4, 64), node("n2", "default", 16, 8)}}
	two := map[string]hosts{"default": {node("n1", "default", 4, 64)}, "gpu": {node("n2", "gpu", 16, 8)}, "": {node("n3", "", 500, 500)}}
	tests := map[string]struct {
		cpu, memory, running int64
		state                string
		nodes                map[string]hosts
		trees                []string
		want                 string
	}{
		"one node is enough":          {16, 8, 0, "running", both, []string{"default"}, ""},
		"too many cores":              {500, 1, 0, "running", both, []string{"default"}, `a job of task "t" asks for 500 cpu, more than any online node of its pool trees has: the largest, n2, has 16 cpu`},
		"too much memory":             {1, 65, 0, "running", both, []string{"default"}, `a job of task "t" asks for 65 GiB memory, more than any online node of its pool trees has: the largest, n1, has 64 GiB memory`},
		"never both at once":          {16, 64, 0, "running", both, []string{"default"}, `a job of task "t" asks for 1 user_slots, 16 cpu, 64 GiB memory, and no online node of its pool trees has all of that at once`},
		"no node: status tells of it": {500, 1, 0, "running", nil, []string{"default"}, ""},
		"others of it run":            {500, 1, 1, "running", both, []string{"default"}, `a job of task "t" asks for 500 cpu, more than any online node of its pool trees has: the largest, n2, has 16 cpu`},
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
			if got := (forest{hosts: test.nodes}).misfit(op, nil); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMisfitOfFilters has an operation that may use tagged nodes alone, by itself or by
// the pools above it.
func TestMisfitOfFilters(t *testing.T) {
	node := func(cpu int64, tags ...string) *statepb.Node {
		return &statepb.Node{Id: "n1", Tags: tags, Resources: &statepb.Resources{UserSlots: 4, CpuHundredths: cpu * 100, Memory: 8 << 30}}
	}
	tags, err := pooltree.ParseFilter("ssd")
	if err != nil {
		t.Fatal(err)
	}
	pools, err := pooltree.FromPools(pooltree.TreeOptions{}, []pooltree.Pool{
		{Name: "fast", Parent: scheduling.RootPool, Options: pooltree.PoolOptions{TagFilter: &tags}}, {Name: "below", Parent: "fast"}, {Name: "any", Parent: scheduling.RootPool},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter string
		nodes  hosts
		want   string
		pool   string
	}{
		"its pool's is met":             {"", hosts{node(8), node(8, "ssd")}, "", "fast"},
		"no node passes its pool's":     {"", hosts{node(8)}, `no online node of its pool trees has the tags that the scheduling_tag_filter "ssd" of pool "fast" asks for`, "below"},
		"those that pass it are small":  {"", hosts{node(8), node(1, "ssd")}, `a job of task "t" asks for 4 cpu, more than any online node of its pool trees has: the largest, n1, has 1 cpu`, "below"},
		"a node has the tag":            {"ssd", hosts{node(1), node(8, "ssd")}, "", "any"},
		"no node has it":                {"ssd & !slow", hosts{node(8), node(8, "ssd", "slow")}, `no online node of its pool trees has the tags that the scheduling_tag_filter "ssd & !slow" of the operation asks for`, "any"},
		"those that have it are small":  {"ssd", hosts{node(8), node(1, "ssd")}, `a job of task "t" asks for 4 cpu, more than any online node of its pool trees has: the largest, n1, has 1 cpu`, "any"},
		"there is no node of any sort":  {"ssd", nil, "", "any"},
		"a filter that cannot be meant": {"ssd &", hosts{node(8)}, "", "any"},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := structpb.NewStruct(map[string]any{"scheduling_tag_filter": test.filter})
			if err != nil {
				t.Fatal(err)
			}
			op := &statepb.Operation{State: "running", Trees: []*statepb.OperationTree{{Tree: "default", Pool: test.pool, Options: options}}, Tasks: []*statepb.Task{{
				Name: "t", Counters: &statepb.JobCounters{Total: 2, Pending: 1}, JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: 400},
			}}}
			if got := (forest{hosts: map[string]hosts{"default": test.nodes}, pools: map[string]pooltree.Tree{"default": pools}}).misfit(op, nil); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMisfitOfGangs asks for room for all of a gang at once, in one tree.
func TestMisfitOfGangs(t *testing.T) {
	node := func(tree string, cpu, memory int64) *statepb.Node {
		return &statepb.Node{Tree: tree, State: statepb.NodeOnline, Resources: &statepb.Resources{UserSlots: 4, CpuHundredths: cpu * 100, Memory: memory << 30}}
	}
	two := map[string]hosts{"default": {node("default", 2, 8), node("default", 16, 8)}}
	drained := node("default", 16, 8)
	drained.Drain = &statepb.Drain{}
	for name, test := range map[string]struct {
		nodes                  map[string]hosts
		pending, running, size int64
		gang                   *statepb.Gang
		demand                 []state.DemandChanged
		wantText               string
	}{
		"all of them fit": {nodes: two, pending: 6, gang: &statepb.Gang{}},
		"one does not": {nodes: two, pending: 7, gang: &statepb.Gang{},
			wantText: `7 jobs of task "t" are a gang, which starts all at once, and the nodes of its pool tree that take jobs hold 6 of them at most, even when empty: in all these have enough, in pieces that are too small; most of them run out of user_slots first, and each job needs 1 user_slots`},
		"those in reserve need not":        {nodes: two, pending: 7, size: 6, gang: &statepb.Gang{}},
		"nor do those that have completed": {nodes: two, pending: 7, size: 7, gang: &statepb.Gang{Completed: []*statepb.Interval{{Begin: 3, End: 4}}}},
		"a node is drained": {nodes: map[string]hosts{"default": {node("default", 2, 8), drained}}, pending: 4, gang: &statepb.Gang{},
			wantText: `4 jobs of task "t" are a gang, which starts all at once, and the nodes of its pool tree that take jobs hold 2 of them at most, even when empty: together they need 4 cpu, and these have 2 cpu`},
		"no tree has room for all": {nodes: map[string]hosts{"default": two["default"], "gpu": {node("gpu", 16, 8)}}, pending: 7, gang: &statepb.Gang{},
			wantText: `7 jobs of task "t" are a gang, which starts all at once, and the nodes of its pool tree that take jobs hold 6 of them at most, even when empty: in all these have enough, in pieces that are too small; most of them run out of user_slots first, and each job needs 1 user_slots`},
		"some need more memory": {nodes: two, pending: 6, gang: &statepb.Gang{}, demand: []state.DemandChanged{{Task: "t", Pending: 3}, {Task: "t", Group: 8 << 30, Pending: 3}},
			wantText: `6 jobs of task "t" are a gang, which starts all at once, and the nodes of its pool tree that take jobs hold 5 of them at most, even when empty: together they need 24 GiB memory, and these have 16 GiB memory`},
		"jobs that are no gang wait": {nodes: two, pending: 7},
		"it has begun":               {nodes: two, pending: 7, running: 1, gang: &statepb.Gang{}},
	} {
		t.Run(name, func(t *testing.T) {
			op := &statepb.Operation{State: "running", Trees: []*statepb.OperationTree{{Tree: "default"}, {Tree: "gpu"}},
				Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{Name: "t", Gang: &statepb.GangSpec{Size: int32(test.size)}}}},
				Tasks: []*statepb.Task{{
					Name: "t", Counters: &statepb.JobCounters{Total: 8, Pending: test.pending, Running: test.running}, Gang: test.gang,
					JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 48 << 20},
				}}}
			if got := (forest{hosts: test.nodes}).misfit(op, test.demand); got != test.wantText {
				t.Errorf("got %q, want %q", got, test.wantText)
			}
		})
	}
}

// TestMisfitOfReserves asks for the memory that is reserved, not for what a job may use at
// most; jobs that were aborted for overdraft ask for more than others.
func TestMisfitOfReserves(t *testing.T) {
	node := map[string]hosts{"default": {{Id: "n1", State: statepb.NodeOnline, Resources: &statepb.Resources{UserSlots: 8, CpuHundredths: 800, Memory: 8 << 30}}}}
	tests := map[string]struct {
		reserved, running int64
		demand            []state.DemandChanged
		want              string
	}{
		"half of the limit fits": {reserved: 5 << 30},
		"what was learned does not": {
			reserved: 9 << 30,
			want:     `a job of task "t" asks for 9 GiB memory, 90% of its memory_limit of 10 GiB and what its job proxy takes, more than any online node of its pool trees has: the largest, n1, has 8 GiB memory`,
		},
		"one with a reserve of its own does not, though others run": {
			reserved: 5 << 30, running: 3, demand: []state.DemandChanged{{Task: "t", Pending: 1}, {Task: "t", Group: 10 << 30, Pending: 1}},
			want: `a job of task "t" asks for 10 GiB memory, reserved since it was aborted for more than it had, more than any online node of its pool trees has: the largest, n1, has 8 GiB memory`,
		},
		"one with a reserve of its own fits":         {reserved: 5 << 30, running: 3, demand: []state.DemandChanged{{Task: "t", Group: 8 << 30, Pending: 1}}},
		"nobody waits with a reserve of that extent": {reserved: 5 << 30, running: 3, demand: []state.DemandChanged{{Task: "t", Group: 10 << 30}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			op := &statepb.Operation{
				State: "running", Trees: []*statepb.OperationTree{{Tree: "default"}},
				Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{Name: "t", MemoryLimit: 10 << 30}}},
				Tasks: []*statepb.Task{{
					Name: "t", Counters: &statepb.JobCounters{Total: 5, Pending: 2, Running: test.running},
					JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: test.reserved},
					Memory:       &statepb.TaskMemory{Reserve: &statepb.JobReserve{User: test.reserved}},
				}},
			}
			if got := (forest{hosts: node}).misfit(op, test.demand); got != test.want {
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
