package api

import (
	"cmp"
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

// noDemand ends why jobs fit no node, apart says so of a gang.
const (
	noDemand = "; until that changes such jobs do not count as demand, and no job is preempted for them"
	apart    = "; until that changes it does not count as demand: it has no fair share, no room is held for it, and no job is preempted for it"
)

// misfitAmong is what keeps jobs of an operation from all nodes of the trees default, which has
// pools, and gpu.
func misfitAmong(nodes []*statepb.Node, pools pooltree.Tree, op *statepb.Operation, demand ...state.DemandChanged) string {
	trees := emptyTrees{"default": {pools: pools}, "gpu": {}}
	trees.note(op)
	trees.survey(nodes)
	return trees.misfit(op, demand, false)
}

func TestMisfit(t *testing.T) {
	node := func(id, tree string, cpu, memory int64) *statepb.Node {
		return &statepb.Node{Id: id, Tree: tree, State: statepb.NodeOnline, Resources: &statepb.Resources{UserSlots: 8, CpuHundredths: cpu * 100, Memory: memory << 30}}
	}
	both := []*statepb.Node{node("n1", "default", 4, 64), node("n2", "default", 16, 8)}
	two := []*statepb.Node{node("n1", "default", 4, 64), node("n2", "gpu", 16, 8), node("n3", "", 500, 500)}
	offline, drained := node("n4", "default", 500, 500), node("n5", "default", 500, 500)
	offline.State, drained.Drain = statepb.NodeOffline, &statepb.Drain{}
	tests := map[string]struct {
		cpu, memory, running int64
		state                string
		nodes                []*statepb.Node
		trees                []string
		want                 string
	}{
		"one node is enough":          {16, 8, 0, "running", both, []string{"default"}, ""},
		"too many cores":              {500, 1, 0, "running", both, []string{"default"}, "no node is big enough: a job of task t needs 1 slot, 500 cpu, 1 GiB memory, but 2 nodes have less cpu even when empty: the largest, n2, has 16 cpu" + noDemand},
		"too much memory":             {1, 65, 0, "running", both, []string{"default"}, "no node is big enough: a job of task t needs 1 slot, 1 cpu, 65 GiB memory, but 2 nodes have less memory even when empty: the largest, n1, has 64 GiB memory" + noDemand},
		"never both at once":          {16, 64, 0, "running", both, []string{"default"}, "no node is big enough: a job of task t needs 1 slot, 16 cpu, 64 GiB memory, but 2 nodes have less cpu, memory even when empty: none has all of that at once" + noDemand},
		"no node: status tells of it": {500, 1, 0, "running", nil, []string{"default"}, ""},
		"the large ones take no jobs": {500, 1, 0, "running", append(both, offline, drained), []string{"default"}, "no node is big enough: a job of task t needs 1 slot, 500 cpu, 1 GiB memory, but 2 nodes have less cpu even when empty: the largest, n2, has 16 cpu" + noDemand},
		"none takes jobs":             {500, 1, 0, "running", []*statepb.Node{offline, drained}, []string{"default"}, ""},
		"others of it run":            {500, 1, 1, "running", both, []string{"default"}, "no node is big enough: a job of task t needs 1 slot, 500 cpu, 1 GiB memory, but 2 nodes have less cpu even when empty: the largest, n2, has 16 cpu" + noDemand},
		"too much for its tree":       {16, 8, 0, "running", two, []string{"default"}, "no node is big enough: a job of task t needs 1 slot, 16 cpu, 8 GiB memory, but 1 node has less cpu even when empty: the largest, n1, has 4 cpu" + noDemand},
		"enough in its other tree":    {16, 8, 0, "running", two, []string{"default", "gpu"}, ""},
		"no node in its other tree":   {500, 1, 0, "running", both, []string{"gpu", "default"}, "no node is big enough: a job of task t needs 1 slot, 500 cpu, 1 GiB memory, but 2 nodes have less cpu even when empty: the largest, n2, has 16 cpu" + noDemand},
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
			if got := misfitAmong(test.nodes, pooltree.Tree{}, op, state.DemandChanged{Task: "t", Pending: 1}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMisfitOfFilters has an operation that may use tagged nodes alone, by itself or by
// the pools above it.
func TestMisfitOfFilters(t *testing.T) {
	node := func(cpu int64, tags ...string) *statepb.Node {
		return &statepb.Node{
			Id: fmt.Sprintf("n%d", cpu), Tree: "default", State: statepb.NodeOnline, Tags: tags, Resources: &statepb.Resources{UserSlots: 4, CpuHundredths: cpu * 100, Memory: 8 << 30},
		}
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
	small := "no node is big enough: a job of task t needs 1 slot, 4 cpu, but 1 node has less cpu even when empty: the largest, n1, has 1 cpu" + noDemand
	for name, test := range map[string]struct {
		filter string
		nodes  []*statepb.Node
		want   string
		pool   string
	}{
		"its pool's is met":             {"", []*statepb.Node{node(8), node(8, "ssd")}, "", "fast"},
		"no node passes its pool's":     {"", []*statepb.Node{node(8)}, `no node matches: the filter "ssd" of pool "fast" leaves out 1 node` + noDemand, "below"},
		"those that pass it are small":  {"", []*statepb.Node{node(8), node(1, "ssd")}, small, "below"},
		"a node has the tag":            {"ssd", []*statepb.Node{node(1), node(8, "ssd")}, "", "any"},
		"no node has it":                {"ssd & !slow", []*statepb.Node{node(8), node(8, "ssd", "slow")}, `no node matches: the filter "ssd & !slow" of the operation leaves out 2 nodes` + noDemand, "any"},
		"nor what its pool's asks for":  {"!ssd", []*statepb.Node{node(8), node(1, "ssd")}, `no node matches: the filter "!ssd" of the operation leaves out 1 node, the filter "ssd" of pool "fast" leaves out 1 node` + noDemand, "fast"},
		"those that have it are small":  {"ssd", []*statepb.Node{node(8), node(1, "ssd")}, small, "any"},
		"there is no node of any sort":  {"ssd", nil, "", "any"},
		"a filter that cannot be meant": {"ssd &", []*statepb.Node{node(8)}, "", "any"},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := structpb.NewStruct(map[string]any{"scheduling_tag_filter": test.filter})
			if err != nil {
				t.Fatal(err)
			}
			op := &statepb.Operation{State: "running", Trees: []*statepb.OperationTree{{Tree: "default", Pool: test.pool, Options: options}}, Tasks: []*statepb.Task{{
				Name: "t", Counters: &statepb.JobCounters{Total: 2, Pending: 1}, JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: 400},
			}}}
			if got := misfitAmong(test.nodes, pools, op, state.DemandChanged{Task: "t", Pending: 1}); got != test.want {
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
	two := []*statepb.Node{node("default", 2, 8), node("default", 16, 8)}
	drained := node("default", 16, 8)
	drained.Drain = &statepb.Drain{}
	const pieces = "at most 6 of the 7 jobs of the gang (task t) that have to start together fit on the 2 nodes that take its jobs, even when they are empty: " +
		"the total is enough, but it is fragmented; most nodes run out of user_slots first, and each job needs 1 slot" + apart
	for name, test := range map[string]struct {
		nodes                  []*statepb.Node
		pending, running, size int64
		gang                   *statepb.Gang
		demand                 []state.DemandChanged
		wantText               string
	}{
		"all of them fit":                  {nodes: two, pending: 6, gang: &statepb.Gang{}},
		"one does not":                     {nodes: two, pending: 7, gang: &statepb.Gang{}, wantText: pieces},
		"those in reserve need not":        {nodes: two, pending: 7, size: 6, gang: &statepb.Gang{}},
		"nor do those that have completed": {nodes: two, pending: 7, size: 7, gang: &statepb.Gang{Completed: []*statepb.Interval{{Begin: 3, End: 4}}}},
		"a node is drained": {
			nodes: []*statepb.Node{two[0], drained}, pending: 4, gang: &statepb.Gang{},
			wantText: "at most 2 of the 4 jobs of the gang (task t) that have to start together fit on the 1 node that takes its jobs, even when it is empty: together the jobs need 4 cpu, but the node has 2 cpu" + apart,
		},
		"no tree has room for all": {nodes: append([]*statepb.Node{node("gpu", 16, 8)}, two...), pending: 7, gang: &statepb.Gang{}, wantText: pieces},
		"some need more memory": {
			nodes: two, pending: 6, gang: &statepb.Gang{}, demand: []state.DemandChanged{{Task: "t", Pending: 3}, {Task: "t", Group: 8 << 30, Pending: 3}},
			wantText: "at most 5 of the 6 jobs of the gang (task t) that have to start together fit on the 2 nodes that take its jobs, even when they are empty: together the jobs need 24 GiB memory, but the nodes have 16 GiB memory" + apart,
		},
		"jobs that are no gang wait": {nodes: two, pending: 7},
		"it has begun":               {nodes: two, pending: 7, running: 1, size: 8, gang: &statepb.Gang{}, wantText: pieces},
		"it has begun, and room is":  {nodes: two, pending: 7, running: 1, size: 7, gang: &statepb.Gang{}},
	} {
		t.Run(name, func(t *testing.T) {
			op := &statepb.Operation{State: "running", Trees: []*statepb.OperationTree{{Tree: "default"}, {Tree: "gpu"}},
				Tasks: []*statepb.Task{{
					Name: "t", Counters: &statepb.JobCounters{Total: 8, Pending: test.pending, Running: test.running}, Gang: test.gang,
					JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 48 << 20},
				}}}
			if test.gang != nil {
				test.gang.Size = int32(cmp.Or(test.size, test.pending))
			}
			if test.demand == nil {
				test.demand = []state.DemandChanged{{Task: "t", Pending: test.pending}}
			}
			if got := misfitAmong(test.nodes, pooltree.Tree{}, op, test.demand...); got != test.wantText {
				t.Errorf("got %q, want %q", got, test.wantText)
			}
		})
	}
}

// TestMisfitOfReserves asks for the memory that is reserved, not for what a job may use at
// most; jobs that were aborted for overdraft ask for more than others.
func TestMisfitOfReserves(t *testing.T) {
	node := []*statepb.Node{{Id: "n1", Tree: "default", State: statepb.NodeOnline, Resources: &statepb.Resources{UserSlots: 8, CpuHundredths: 800, Memory: 8 << 30}}}
	tests := map[string]struct {
		reserved, running int64
		demand            []state.DemandChanged
		want              string
	}{
		"half of the limit fits": {reserved: 5 << 30, demand: []state.DemandChanged{{Task: "t", Pending: 2}}},
		"what was learned does not": {
			reserved: 9 << 30, demand: []state.DemandChanged{{Task: "t", Pending: 2}},
			want: "no node is big enough: a job of task t needs 1 slot, 1 cpu, 9 GiB memory, but 1 node has less memory even when empty: the largest, n1, has 8 GiB memory" + noDemand +
				"; a job of task t needs its memory reserve to start: 9GiB for its processes, 90% of its memory_limit of 10GiB (from its settings: nothing learned yet), and 0B for its job proxy",
		},
		"one with a reserve of its own does not, though others run": {
			reserved: 5 << 30, running: 3, demand: []state.DemandChanged{{Task: "t", Pending: 1}, {Task: "t", Group: 10 << 30, Pending: 1}},
			want: "no node is big enough: a job of task t (ran out of memory before, now gets 10GiB) needs 1 slot, 1 cpu, 10 GiB memory, but 1 node has less memory even when empty: the largest, n1, has 8 GiB memory" + noDemand,
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
			if got := misfitAmong(node, pooltree.Tree{}, op, test.demand...); got != test.want {
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
	why := "no node is big enough: a job of task t needs 1 slot, 1 cpu, 1 MiB memory, but 1 node has less cpu even when empty: the largest, n1, has 0.5 cpu" + noDemand
	want(t, s.get("OperationService/Get", named), why, "operation", "pending_reason")
	if problems := fmt.Sprint(at(t, s.get("ClusterService/Status", "{}"), "problems")); !strings.Contains(problems, "operation "+id+" waits: "+strings.Replace(why, "task t ", "task 1 ", 1)) {
		t.Errorf("the status says %s", problems)
	}
}
