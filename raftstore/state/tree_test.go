package state

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// taggedNode returns the registration of a node of two slots with tags.
func taggedNode(id string, tags ...string) *commandpb.RegisterNode {
	m := nodeOf(id, 2)
	m.Node.Tags = tags
	return m
}

// bothSpec returns the specification of an operation in both trees of a forest.
func bothSpec() *statepb.OperationSpec {
	spec := specOf(4)
	spec.PoolTrees = []string{"gpu", "default"}
	return spec
}

// forest is a state with two trees: "default" of all nodes without the tag gpu, and
// "gpu" of the others. In "default" are the pools "team" with "ads" (guaranteed 2
// cores), the relaxed "slow" and "fifo"; "hub" makes subpools, "full" holds one
// operation. In "gpu" pool "default" runs one operation: "first" has the place,
// "both" runs in the tree "default" only. Node "n1" is plain, "g1" has a gpu.
func forest(t testing.TB) *journal {
	j := newJournal(t)
	j.must(
		treeEdit("", map[string]any{"nodes_filter": "!gpu", "max_ephemeral_pools_per_user": 1}),
		&commandpb.CreateTree{Tree: "gpu", Options: optionsOf(map[string]any{"nodes_filter": "gpu", "max_running_operation_count_per_pool": 1})},
		taggedNode("n1"), taggedNode("g1", "gpu"),
		edit(
			creation("team", "", map[string]any{"strong_guarantee_resources": map[string]any{"cpu": 4}}),
			creation("ads", "team", map[string]any{"strong_guarantee_resources": map[string]any{"cpu": 2}}),
			creation("slow", "", map[string]any{"integral_guarantees": map[string]any{"guarantee_type": "relaxed", "resource_flow": map[string]any{"cpu": 1}}}),
			creation("fifo", "", map[string]any{"mode": "fifo"}),
			creation("hub", "", map[string]any{"create_ephemeral_subpools": true}),
			creation("full", "", map[string]any{"max_operation_count": 1, "max_running_operation_count": 1}),
			creation("closed", "", map[string]any{"forbid_immediate_operations": true}),
		),
	)
	first := specOf(1)
	first.PoolTrees = []string{"gpu"}
	j.run("first", first)
	j.walk("both", bothSpec(), lifecycle.Pending)
	j.must(&commandpb.AdvanceOperation{OperationId: "both", Term: 1, From: "pending", To: "materializing", Trees: []string{"default"}})
	j.must(define("both", task("t", 4)))
	one := specOf(1)
	one.Pool = "full"
	j.run("one", one)
	hers := specOf(1)
	hers.Pool = "hers"
	j.run("hers", hers)
	return j
}

func startIn(pool string, trees ...string) *commandpb.StartOperation {
	return startWith(func(s *statepb.OperationSpec) { s.Pool, s.PoolTrees = pool, trees })
}

func updateOf(operation, tree string, pool *string, options map[string]any) *commandpb.UpdateOperation {
	return &commandpb.UpdateOperation{OperationId: operation, User: "ann", Changes: []*commandpb.OperationChange{
		{Tree: tree, Pool: pool, Options: changesOf(options)},
	}}
}

func to(pool string) *string { return &pool }

func TestEditsAreRefused(t *testing.T) {
	long := strings.Repeat("x", 101)
	checkRefusalsOf(t, forest, map[string]refused{
		"in an unknown tree":         {&commandpb.EditTree{Tree: "cpu", Edits: []*commandpb.TreeEdit{removal("ads")}}, CodeUnknownTree, `no pool tree "cpu": there are "default", "gpu"`},
		"no edits":                   {edit(), CodeInvalidCommand, "there is nothing to change"},
		"an empty edit":              {edit(&commandpb.TreeEdit{}), CodeInvalidCommand, "edit pool tree: an edit is empty"},
		"a negative weight":          {createPool("x", "", map[string]any{"weight": -1}), CodeInvalidPool, "weight: -1 is not a number from 0"},
		"a weight that is no number": {createPool("x", "", map[string]any{"weight": math.NaN()}), CodeInvalidPool, `weight: is the text "NaN"`},
		"a share above 1":            {changePool("ads", map[string]any{"max_share_ratio": 1.5}), CodeInvalidPool, "max_share_ratio: 1.5 is not a number from 0 to 1"},
		"a share below 0":            {changePool("ads", map[string]any{"max_share_ratio": -0.5}), CodeInvalidPool, "max_share_ratio: -0.5"},
		"children guaranteed more than their parent": {changePool("ads", map[string]any{"min-share-resources/cpu": 5}), CodeInvalidPool,
			`pool "team": strong_guarantee_resources/cpu: the pools below it are guaranteed 5, but it has only 4`},
		"a parent guaranteed less than its children": {changePool("team", map[string]any{"strong_guarantee_resources": nil}), CodeInvalidPool, "it has only 0"},
		"a burst on a relaxed pool": {changePool("slow", map[string]any{"integral_guarantees/burst_guarantee_resources/cpu": 2}), CodeInvalidPool,
			"integral_guarantees/burst_guarantee_resources: only a burst pool has this"},
		"a cycle":                                  {movePool("team", "ads"), CodeInvalidPool, "below itself"},
		"a name that is taken":                     {createPool("ads", "", nil), CodePoolExists, `create pool "ads"`},
		"a new name that is taken":                 {edit(renaming("ads", "slow")), CodePoolExists, `rename pool "ads" to "slow"`},
		"a dollar in a name":                       {createPool("a$b", "", nil), CodeInvalidPool, `contains '$'`},
		"a dollar in a new name":                   {edit(renaming("ads", "a$b")), CodeInvalidPool, `contains '$'`},
		"a name that is too long":                  {createPool(long, "", nil), CodeInvalidPool, "the limit is 100"},
		"a pool below nothing":                     {createPool("x", "gone", nil), CodeUnknownPool, `parent "gone"`},
		"a negative limit":                         {createPool("x", "", map[string]any{"max_operation_count": -1}), CodeInvalidPool, "max_operation_count: -1 is not a number of at least 0"},
		"removal with operations":                  {edit(removal("full")), CodePoolInUse, "it has 1 operations"},
		"removal with pools":                       {edit(removal("team")), CodePoolInUse, `the first is "ads"`},
		"removal under another name":               {edit(renaming("full", "fuller"), removal("fuller")), CodePoolInUse, "it has 1 operations"},
		"removal of nothing":                       {edit(removal("gone")), CodeUnknownPool, `remove pool "gone": no such pool in tree "default" (there are `},
		"removal of the root":                      {edit(removal("<Root>")), CodeInvalidPool, "root"},
		"an unknown setting":                       {changePool("ads", map[string]any{"wieght": 1}), CodeInvalidPool, "wieght: unknown option; did you mean weight?"},
		"an unknown pool":                          {changePool("adz", map[string]any{"weight": 1}), CodeUnknownPool, `no such pool in tree "default" (there are "ads"`},
		"options of the root":                      {changePool("<Root>", map[string]any{"weight": 1}), CodeInvalidPool, "set the options of the tree"},
		"an unknown setting of the tree":           {treeEdit("", map[string]any{"max_pools": 1}), CodeInvalidTree, "max_pools: unknown option"},
		"a filter with a fault":                    {treeEdit("", map[string]any{"nodes_filter": "a & "}), CodeInvalidTree, "position 5"},
		"a filter that takes the nodes of another": {treeEdit("", map[string]any{"nodes_filter": nil}), CodeTreesOverlap, `trees "default" and "gpu"`},
		"a parent of ephemeral pools that is none": {treeEdit("", map[string]any{"default_parent_pool": "gone"}), CodeUnknownPool, "default_parent_pool"},
		"an old revision":                          {&commandpb.EditTree{ExpectedRevision: 1, Edits: []*commandpb.TreeEdit{removal("ads")}}, CodeRevisionMismatch, `tree "default" is at revision 4, not 1`},
		"one of many that cannot be":               {edit(removal("ads"), creation("good", "", nil), creation("x", "fifo", map[string]any{"weight": -1})), CodeInvalidPool, "weight"},
	})
}

func TestTreesAreRefused(t *testing.T) {
	checkRefusalsOf(t, forest, map[string]refused{
		"a tree twice":                {&commandpb.CreateTree{Tree: "gpu"}, CodeTreeExists, "a tree with this name exists"},
		"a name that cannot be":       {&commandpb.CreateTree{Tree: "a/b"}, CodeInvalidTree, "contains '/'"},
		"no name":                     {&commandpb.CreateTree{}, CodeInvalidTree, "empty"},
		"an unknown option":           {&commandpb.CreateTree{Tree: "x", Options: optionsOf(map[string]any{"node_filter": "x"})}, CodeInvalidTree, "did you mean nodes_filter?"},
		"the nodes of another":        {&commandpb.CreateTree{Tree: "x"}, CodeTreesOverlap, `trees "x" and "default"`},
		"a part of another's nodes":   {&commandpb.CreateTree{Tree: "x", Options: optionsOf(map[string]any{"nodes_filter": "gpu & big"})}, CodeTreesOverlap, `trees "x" and "gpu"`},
		"remove what is not there":    {&commandpb.RemoveTree{Tree: "x"}, CodeUnknownTree, `there are "default", "gpu"`},
		"remove the default":          {&commandpb.RemoveTree{Tree: "default"}, CodeTreeInUse, "make another one the default first"},
		"remove one with operations":  {&commandpb.RemoveTree{Tree: "gpu"}, CodeTreeInUse, "it has 2 operations"},
		"an unknown default":          {&commandpb.SetDefaultTree{Tree: "x"}, CodeUnknownTree, "no such tree"},
		"volumes of nothing":          {&commandpb.CheckpointVolumes{Term: 1, Tree: "x"}, CodeUnknownTree, "x"},
		"volumes of another leader":   {&commandpb.CheckpointVolumes{Term: 2}, CodeStaleTerm, "checkpoint"},
		"a volume below nothing":      {&commandpb.CheckpointVolumes{Term: 1, Volumes: []*statepb.PoolVolume{{Pool: "slow", UserSlots: -1}}}, CodeInvalidCommand, "-1 is not a volume"},
		"more than the cluster given": {&commandpb.CheckpointVolumes{Term: 1, Volumes: []*statepb.PoolVolume{{Pool: "slow", LastShareRatio: 1.5}}}, CodeInvalidCommand, "last share ratio 1.5 is more than the whole cluster"},
		"a rest that is no number":    {&commandpb.CheckpointVolumes{Term: 1, Volumes: []*statepb.PoolVolume{{Pool: "slow", CpuRest: math.NaN()}}}, CodeInvalidCommand, "cpu_rest NaN is not a finite number"},
		"a clock of nobody":           {&commandpb.CheckpointVolumes{Term: 1, Clocks: []*statepb.StarvationClock{{}}}, CodeInvalidCommand, "exactly one of them must be set"},
		"a clock of two":              {&commandpb.CheckpointVolumes{Term: 1, Clocks: []*statepb.StarvationClock{{PoolId: 1, OperationId: "ann"}}}, CodeInvalidCommand, "exactly one of them must be set"},
		"a clock of another status":   {&commandpb.CheckpointVolumes{Term: 1, Clocks: []*statepb.StarvationClock{{PoolId: 1, Starvation: "dead"}}}, CodeInvalidCommand, `starvation status "dead"`},
		"an age of too much":          {&commandpb.CheckpointVolumes{Term: 1, Age: &statepb.PreemptionAge{Takings: make([]*statepb.Taking, MaxTakings+1)}}, CodeInvalidCommand, "10001 takings, the limit is 10000"},
		"a volume that is no number":  {&commandpb.CheckpointVolumes{Term: 1, Volumes: []*statepb.PoolVolume{{Pool: "slow", Memory: math.NaN()}}}, CodeInvalidCommand, "NaN is not a volume"},
	})
}

// TestNodesOfTwoTreesAreRefused shows R2 where filters are such that only a node
// can tell that they overlap.
// TestTreesThatCannotBeToldApart makes trees whose filters are the same and do not look
// alike.
func TestTreesThatCannotBeToldApart(t *testing.T) {
	pairs := func(form string) map[string]any {
		var parts []string
		for i := range 30 {
			parts = append(parts, fmt.Sprintf(form, i))
		}
		return map[string]any{"nodes_filter": strings.Join(parts, "&")}
	}
	j := newJournal(t)
	j.must(treeEdit("", pairs("(a%[1]d|b%[1]d)")))
	result, _ := j.apply(&commandpb.CreateTree{Tree: "other", Options: optionsOf(pairs("(b%[1]d|a%[1]d)"))})
	if got := result.GetRefusal(); got.GetCode() != CodeTreesOverlap || !strings.Contains(got.GetMessage(), `trees "other" and "default"`) || !strings.Contains(got.GetMessage(), "may select the same nodes") {
		t.Errorf("got %v", result)
	}
	j.must(&commandpb.CreateTree{Tree: "other", Options: optionsOf(map[string]any{"nodes_filter": "!a1 & !b1"})}, treeEdit("other", map[string]any{"main_resource": "gpu"}))
}

func TestNodesOfTwoTreesAreRefused(t *testing.T) {
	made := func(t testing.TB) *journal {
		j := forest(t)
		j.must(treeEdit("", map[string]any{"nodes_filter": "plain"}))
		return j
	}
	checkRefusalsOf(t, made, map[string]refused{
		"a node of both":                        {taggedNode("x", "gpu", "plain"), CodeTreesOverlap, `match the trees "default" and "gpu" (filters "plain" and "gpu")`},
		"a filter that takes a node of another": {treeEdit("", map[string]any{"nodes_filter": "plain | g1 | !plain & !cpu"}), CodeTreesOverlap, `trees "default" and "gpu"`},
	})
	j := made(t)
	j.must(taggedNode("x", "mars"))
	if n, _ := j.state.Node("x"); n.GetTree() != "" || n.GetState() != statepb.NodeOnline {
		t.Errorf("a node of no tree: %v", n)
	}
	if n, _ := j.state.Node("n1"); n.GetTree() != "" {
		t.Errorf("a node that its tree left: %v", n)
	}
	j.must(treeEdit("", map[string]any{"nodes_filter": "mars"}))
	if n, _ := j.state.Node("x"); n.GetTree() != "default" {
		t.Errorf("a node whose tree came: %v", n)
	}
}

// TestNodesWithJobsStayInTheirTree shows that what takes a node with jobs out of its
// tree is refused.
func TestNodesWithJobsStayInTheirTree(t *testing.T) {
	made := func(t testing.TB) *journal {
		j := forest(t)
		j.start("both", "job")
		return j
	}
	checkRefusalsOf(t, made, map[string]refused{
		"by other tags": {taggedNode("n1", "gpu"), CodeTreeInUse, `it would move from pool tree "default" to "gpu", but it has 1 jobs`},
		"to no tree":    {treeEdit("", map[string]any{"nodes_filter": "ssd & !gpu"}), CodeTreeInUse, `node "n1" would leave the tree`},
	})
}

func TestStartsAndUpdatesInTreesAreRefused(t *testing.T) {
	checkRefusalsOf(t, forest, map[string]refused{
		"in an unknown tree": {startIn("", "cpu"), CodeUnknownTree, `no pool tree "cpu"`},
		"twice in a tree":    {startIn("", "gpu", "gpu"), CodeInvalidSpec, `pool_trees: "gpu" is listed twice`},
		"in the root":        {startIn("<Root>"), CodeInvalidPool, "forbid_immediate_operations_in_root"},
		"in a closed pool":   {startIn("closed"), CodeInvalidPool, "does not accept operations directly"},
		"in a full pool":     {startIn("full"), CodePoolFull, `tree "default": pool "full": limit of 1 operations reached (option max_operation_count), 1 now`},
		"in an ephemeral pool too many": {&commandpb.StartOperation{OperationId: "x", User: "ann", Spec: &statepb.OperationSpec{
			Type: "vanilla", Pool: "another", Tasks: specOf(1).GetTasks()}}, CodeUnknownPool, `user "ann" has 1: too many ephemeral pools (option max_ephemeral_pools_per_user 1 of the tree)`},
		"in an ephemeral pool with a bad name": {startIn("a/b"), CodeInvalidPool, "contains '/'"},
		"with an unknown option":               {startWith(func(s *statepb.OperationSpec) { s.Options = optionsOf(map[string]any{"wait": 1}) }), CodeInvalidSpec, `wait: unknown option`},
		"with options of a tree that it is not in": {startWith(func(s *statepb.OperationSpec) {
			s.OptionsPerTree = map[string]*structpb.Struct{"gpu": optionsOf(nil)}
		}), CodeInvalidSpec, `"gpu": the operation is not in this tree`},
		"with a pool that is none": {startWith(func(s *statepb.OperationSpec) {
			s.OptionsPerTree = map[string]*structpb.Struct{"default": optionsOf(map[string]any{"pool": 3})}
		}), CodeInvalidSpec, `tree "default": pool is not text`},
		"in one tree well and one not": {startIn("closed", "gpu", "default"), CodeInvalidPool, `tree "default"`},

		"update of nothing":                 {&commandpb.UpdateOperation{OperationId: "both"}, CodeInvalidCommand, "nothing to change"},
		"update that says nothing":          {updateOf("both", "", nil, nil), CodeInvalidCommand, "a change sets neither a pool nor an option"},
		"update of what is not there":       {updateOf("gone", "", to("ads"), nil), CodeUnknownOperation, "gone"},
		"update in another tree":            {updateOf("both", "cpu", to("ads"), nil), CodeUnknownTree, `not in tree "cpu"`},
		"update of no option":               {updateOf("both", "", nil, map[string]any{"colour": 1}), CodeInvalidSpec, "colour: unknown option"},
		"update to a bad value":             {updateOf("both", "gpu", nil, map[string]any{"weight": -1}), CodeInvalidSpec, `tree "gpu": weight: -1`},
		"move to a full pool":               {updateOf("both", "default", to("full"), nil), CodePoolFull, `pool "full"`},
		"move to the root":                  {updateOf("both", "default", to("<Root>"), nil), CodeInvalidPool, "root"},
		"move in one tree well and one not": {updateOf("both", "", to("closed"), nil), CodeInvalidPool, `tree "default"`},
		"a good change and a bad one": {&commandpb.UpdateOperation{OperationId: "both", Changes: []*commandpb.OperationChange{
			{Pool: to("ads"), Tree: "default"}, {Options: changesOf(map[string]any{"max_share_ratio": 2})}}}, CodeInvalidSpec, "max_share_ratio"},

		"run in a tree that is full": {&commandpb.AdmitOperation{OperationId: "both", Term: 1, Trees: []string{"gpu"}}, CodePoolRunningLimit, `tree "gpu": pool "default": limit of 1 operations reached`},
		"run in another tree":        {&commandpb.AdmitOperation{OperationId: "both", Term: 1, Trees: []string{"cpu"}}, CodeUnknownTree, `not in tree "cpu"`},
		"run in no tree":             {&commandpb.AdmitOperation{OperationId: "both", Term: 1}, CodeInvalidCommand, "no tree given"},
		"run at another leader":      {&commandpb.AdmitOperation{OperationId: "both", Term: 2, Trees: []string{"gpu"}}, CodeStaleTerm, "term 2"},
	})
}

// TestMovesMeetTheLimitsOfTheNewPoolsOnly moves a running operation: pools that are
// above both the old and the new pool do not count it twice.
func TestMovesMeetTheLimitsOfTheNewPoolsOnly(t *testing.T) {
	j := newJournal(t)
	j.must(edit(
		creation("team", "", map[string]any{"max_operation_count": 2, "max_running_operation_count": 1}),
		creation("a", "team", nil), creation("b", "team", nil),
		creation("busy", "", map[string]any{"max_running_operation_count": 0}),
	))
	spec := specOf(1)
	spec.Pool = "a"
	j.run("op", spec)
	waiting := specOf(1)
	waiting.Pool = "a"
	j.walk("waiting", waiting, lifecycle.Pending)
	j.must(updateOf("op", "", to("b"), nil), updateOf("waiting", "", to("b"), nil), updateOf("waiting", "", to("busy"), nil))
	if _, counts, _ := j.state.Pools(scheduling.DefaultTree); counts["team"].Operations != 1 || counts["b"].Running != 1 || counts["a"].Operations != 0 {
		t.Errorf("counts %v", counts)
	}
	result, _ := j.apply(updateOf("op", "", to("busy"), nil))
	if got := result.GetRefusal(); got.GetCode() != CodePoolRunningLimit || !strings.Contains(got.GetMessage(), `pool "busy": limit of 0 operations`) {
		t.Errorf("a running operation moved to a pool that runs none: %v", result)
	}
}

// TestGrantsAreOfTreesThatLetTheOperationRun shows that an operation gets no job on
// nodes of a tree that does not let it run yet.
func TestGrantsAreOfTreesThatLetTheOperationRun(t *testing.T) {
	j := forest(t)
	on := func(job, node string) *commandpb.Grant {
		g := grantOf(job, "both")
		g.Node = node
		return g
	}
	refusals := func() [2]string {
		result, _ := j.apply(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{
			on("a"+j.stateOf("first"), "n1"), on("b"+j.stateOf("first"), "g1")}})
		grants := result.GetStartAllocations().GetGrants()
		return [2]string{grants[0].GetRefusal(), grants[1].GetRefusal()}
	}
	if got := refusals(); got != [2]string{"", CodeNotAdmitted} {
		t.Errorf("before the tree gpu has room: %q", got)
	}
	j.must(
		&commandpb.AbortOperation{OperationId: "first"},
		&commandpb.AdvanceOperation{OperationId: "first", Term: 1, From: "aborting", To: "aborted"},
		&commandpb.AdmitOperation{OperationId: "both", Term: 1, Trees: []string{"gpu"}},
	)
	if got := refusals(); got != [2]string{"", ""} {
		t.Errorf("in both trees: %q", got)
	}
}

// TestGangsAreOfFIFOPools shows where gangs may go when a tree wants them in FIFO
// pools only.
func TestGangsAreOfFIFOPools(t *testing.T) {
	made := func(t testing.TB) *journal {
		j := forest(t)
		j.must(treeEdit("", map[string]any{"allow_gang_operations_only_in_fifo_pools": true}))
		return j
	}
	gang := func(pool string, jobs int32, is bool) *commandpb.StartOperation {
		return startWith(func(s *statepb.OperationSpec) { s.Pool, s.IsGang, s.Tasks[0].JobCount = pool, is, jobs })
	}
	checkRefusalsOf(t, made, map[string]refused{
		"a gang in a fair share pool":       {gang("ads", 2, true), CodeInvalidPool, "pool does not accept gangs"},
		"a single job in a fair share pool": {gang("ads", 1, false), CodeInvalidPool, "pool does not accept gangs"},
	})
	j := made(t)
	j.must(gang("fifo", 2, true))
}

// TestLightweightOperationsDoNotCountAsRunning shows the vanilla operations of a FIFO
// pool that wants it so, also when it wants it while they run.
func TestLightweightOperationsDoNotCountAsRunning(t *testing.T) {
	j := newJournal(t)
	j.must(createPool("fifo", "", map[string]any{"mode": "fifo", "max_running_operation_count": 1}))
	spec := func() *statepb.OperationSpec {
		s := specOf(1)
		s.Pool = "fifo"
		return s
	}
	j.run("a", spec())
	j.walk("b", spec(), lifecycle.Pending)
	running := func() int64 {
		_, counts, _ := j.state.Pools(scheduling.DefaultTree)
		return counts["fifo"].Running
	}
	if running() != 1 {
		t.Errorf("%d count as running, want 1", running())
	}
	j.must(changePool("fifo", map[string]any{"enable_lightweight_operations": true}))
	j.must(&commandpb.AdvanceOperation{OperationId: "b", Term: 1, From: "pending", To: "materializing"})
	if running() != 0 {
		t.Errorf("%d lightweight ones count as running", running())
	}
	j.must(changePool("fifo", map[string]any{"enable_lightweight_operations": nil}))
	if running() != 2 {
		t.Errorf("%d count as running again, want 2", running())
	}
}
