package state

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// busy is a state with a bit of everything: "new" is starting, "waiting" is
// pending, "made" is materializing, "ann" runs 2 of 4 jobs, "held" is
// suspended, "ending" is aborting with a job, "done" is completed.
func busy(t testing.TB) *journal {
	j := newJournal(t)
	j.must(nodeOf("n1", 8), nodeOf("n2", 1))
	j.must(&commandpb.SetNodeOffline{Term: 1, Node: "n2", Incarnation: 1})
	j.must(createPool("small", "", map[string]any{"max_operation_count": 1, "max_running_operation_count": 1}))
	j.must(createPool("slow", "", map[string]any{"max_operation_count": 2, "max_running_operation_count": 0}))
	j.walk("new", specOf(1), lifecycle.Starting)
	waiting := specOf(1)
	waiting.Pool = "slow"
	j.walk("waiting", waiting, lifecycle.Pending)
	j.walk("made", specOf(2), lifecycle.Materializing)
	ann := specOf(4)
	ann.Alias, ann.Pool = "*ann", "small"
	j.run("ann", ann)
	j.start("ann", "ann-0", "ann-1")
	j.run("held", specOf(1))
	j.must(&commandpb.SuspendOperation{OperationId: "held", User: "ann"})
	j.run("ending", specOf(1))
	j.start("ending", "ending-0")
	j.must(&commandpb.AbortOperation{OperationId: "ending", User: "ann"})
	j.run("done", specOf(1))
	j.start("done", "done-0")
	j.finish("done", "completed", "done-0")
	j.must(&commandpb.AdvanceOperation{OperationId: "done", Term: 1, From: "completing", To: "completed"})
	return j
}

// refused is a command and what it is refused with.
type refused struct {
	command     proto.Message
	wantCode    string
	wantMessage string
}

func startWith(change func(*statepb.OperationSpec)) *commandpb.StartOperation {
	spec := specOf(1)
	change(spec)
	return &commandpb.StartOperation{OperationId: "x", User: "bob", Spec: spec}
}

func checkRefusals(t *testing.T, table map[string]refused) {
	t.Helper()
	checkRefusalsOf(t, busy, table)
}

// checkRefusalsOf applies each command to a state of its own.
func checkRefusalsOf(t *testing.T, made func(testing.TB) *journal, table map[string]refused) {
	t.Helper()
	for story, test := range table {
		t.Run(story, func(t *testing.T) {
			j := made(t)
			before := contentOf(t, j.state)
			result, events := j.apply(test.command)
			if got := result.GetRefusal().GetCode(); got != test.wantCode {
				t.Fatalf("got %v, want code %q", result, test.wantCode)
			}
			if got := result.GetRefusal().GetMessage(); !strings.Contains(got, test.wantMessage) {
				t.Errorf("got message %q, want it to say %q", got, test.wantMessage)
			}
			if len(events) != 0 {
				t.Errorf("a refused command caused %v", events)
			}
			if !bytes.Equal(before, contentOf(t, j.state)) {
				t.Error("a refused command changed the state")
			}
			if got := j.state.LastIndex(); got != uint64(len(j.entries)) {
				t.Errorf("last index %d, want %d", got, len(j.entries))
			}
		})
	}
}

func TestLeadersAreFenced(t *testing.T) {
	checkRefusals(t, map[string]refused{
		"a term that is over": {&commandpb.BeginTerm{Term: 1, Replica: "r2"}, CodeStaleTerm,
			`term 1 of replica "r2" is not after term 1 of replica "r1"`},
		"no term": {&commandpb.BeginTerm{Replica: "r2"}, CodeInvalidCommand, "both must be given"},
		"a leader of another cluster": {&commandpb.BeginTerm{Term: 2, Replica: "r2", ClusterId: "c2"}, CodeWrongCluster,
			`this is cluster "c1"`},
		"limits that cannot be": {&commandpb.BeginTerm{Term: 2, Replica: "r2", Limits: &statepb.Limits{EventsPerOperation: 2}},
			CodeInvalidCommand, "limit events_per_operation is 2: it must be at least 3, or 0 for the default 200"},
		"an invalid time": {&commandpb.BeginTerm{Term: 2, Replica: "r2", Time: &timestamppb.Timestamp{Nanos: -1}}, CodeInvalidCommand, "time"},
		"advance by another leader": {&commandpb.AdvanceOperation{OperationId: "new", Term: 2, From: "starting", To: "waiting_for_agent"},
			CodeStaleTerm, `proposed in term 2, but the current term is 1 (leader "r1"): retry there`},
		"pending reason by another leader": {&commandpb.SetPendingReason{OperationId: "waiting"}, CodeStaleTerm, "term 0"},
		"assignment by another leader":     {&commandpb.AssignController{}, CodeStaleTerm, "assign controller"},
		"grants of another leader":         {&commandpb.StartAllocations{}, CodeStaleTerm, "start allocations"},
		"aborts by another leader":         {&commandpb.AbortAllocations{}, CodeStaleTerm, "abort allocations"},
		"a node at another leader":         {&commandpb.RegisterNode{Node: &statepb.Node{Id: "n3", Incarnation: 1}}, CodeStaleTerm, "register node"},
		"a node lost by another leader":    {&commandpb.SetNodeOffline{Node: "n1", Incarnation: 1}, CodeStaleTerm, "set node offline"},
	})
}

func TestControllersAreFenced(t *testing.T) {
	checkRefusals(t, map[string]refused{
		"prepare in a later epoch": {&commandpb.PrepareOperation{OperationId: "made", Epoch: 2}, CodeStaleEpoch,
			`proposed in epoch 2, but replica "r1" controls the operation in epoch 1`},
		"define in no epoch":           {&commandpb.DefineTasks{OperationId: "new"}, CodeStaleEpoch, "epoch 0"},
		"finish in another epoch":      {&commandpb.FinishJobs{OperationId: "ann", Epoch: 7}, CodeStaleEpoch, "epoch 7"},
		"finish what is not there":     {&commandpb.FinishJobs{OperationId: "gone", Epoch: 1}, CodeUnknownOperation, `operation "gone" not found`},
		"prepare what is prepared":     {&commandpb.PrepareOperation{OperationId: "made", Epoch: 1}, CodeInvalidOperationState, "it is materializing, not initializing"},
		"define what runs":             {&commandpb.DefineTasks{OperationId: "ann", Epoch: 1}, CodeInvalidOperationState, "it is running, not materializing"},
		"define no tasks":              {&commandpb.DefineTasks{OperationId: "made", Epoch: 1}, CodeInvalidCommand, `task "t" of the specification is not defined`},
		"define a task too many":       {define("made", task("t", 2), task("u", 2)), CodeUnknownTask, "2 tasks are defined, but the specification has 1"},
		"define a task twice":          {define("made", task("t", 2), task("t", 2)), CodeInvalidCommand, `task "t" is defined twice`},
		"define a task without jobs":   {define("made", task("t", 0)), CodeInvalidCommand, "job_count is 0"},
		"define too many jobs":         {define("made", task("t", 100001)), CodeTooManyJobs, "it has 100001 jobs, at most 100000 are allowed"},
		"define jobs that give":        {define("made", &commandpb.TaskDefinition{Name: "t", JobCount: 1, JobResources: &statepb.Resources{Gpu: -1}}), CodeInvalidCommand, "resource gpu: negative amount -1"},
		"assign an epoch that is over": {assign("ann", "r2", 1), CodeStaleEpoch, `epoch 1 is not greater than the current one, 1 of replica "r1"`},
		"assign what has ended":        {assign("done", "r2", 2), CodeInvalidOperationState, "is completed and needs no controller"},
		"assign what is not there":     {assign("gone", "r2", 2), CodeUnknownOperation, "gone"},
		"assign to nobody":             {assign("ann", "", 2), CodeInvalidCommand, "no replica is named"},
		"assign one well and one not": {&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{
			{OperationId: "ann", Replica: "r2", Epoch: 2}, {OperationId: "ann", Replica: "r2", Epoch: 3}}}, CodeInvalidCommand, "named twice"},
	})
}

func define(operation string, tasks ...*commandpb.TaskDefinition) *commandpb.DefineTasks {
	return &commandpb.DefineTasks{OperationId: operation, Epoch: 1, Tasks: tasks}
}

func task(name string, jobs int32) *commandpb.TaskDefinition {
	return &commandpb.TaskDefinition{Name: name, JobCount: jobs, JobResources: jobSize()}
}

func assign(operation, replica string, epoch uint64) *commandpb.AssignController {
	return &commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{
		{OperationId: operation, Replica: replica, Epoch: epoch}}}
}

func TestStartsAreRefused(t *testing.T) {
	checkRefusals(t, map[string]refused{
		"no id":      {&commandpb.StartOperation{Spec: specOf(1)}, CodeInvalidCommand, "it has no id"},
		"an id used": {&commandpb.StartOperation{OperationId: "ann", Spec: specOf(1)}, CodeDuplicateOperation, `"ann": another operation has this id`},
		"no spec":    {&commandpb.StartOperation{OperationId: "x"}, CodeInvalidSpec, "type is empty"},
		"no tasks":   {startWith(func(s *statepb.OperationSpec) { s.Tasks = nil }), CodeInvalidSpec, "needs at least one"},
		"no jobs":    {startWith(func(s *statepb.OperationSpec) { s.Tasks[0].JobCount = 0 }), CodeInvalidSpec, "job_count is 0"},
		"no name":    {startWith(func(s *statepb.OperationSpec) { s.Tasks[0].Name = "" }), CodeInvalidSpec, "a name is empty"},
		"a name twice": {startWith(func(s *statepb.OperationSpec) { s.Tasks = append(s.Tasks, s.Tasks[0]) }),
			CodeInvalidSpec, `name "t" is used twice`},
		"too many jobs": {startWith(func(s *statepb.OperationSpec) { s.Tasks[0].JobCount = math.MaxInt32 }),
			CodeTooManyJobs, "limit jobs_per_operation"},
		"a negative limit": {startWith(func(s *statepb.OperationSpec) { s.MaxFailedJobCount = -1 }), CodeInvalidSpec, "max_failed_job_count -1 is negative"},
		"a negative limit of a task": {startWith(func(s *statepb.OperationSpec) { s.Tasks[0].MaxFailedJobCount = -1 }),
			CodeInvalidSpec, "max_failed_job_count -1 is negative"},
		"no weight":       {startWith(func(s *statepb.OperationSpec) { s.Options = optionsOf(map[string]any{"weight": math.NaN()}) }), CodeInvalidSpec, `weight: is the text "NaN", not a number`},
		"a plain alias":   {startWith(func(s *statepb.OperationSpec) { s.Alias = "ann" }), CodeInvalidSpec, "must start with *"},
		"an alias in use": {startWith(func(s *statepb.OperationSpec) { s.Alias = "*ann" }), CodeDuplicateAlias, "in use by operation ann, which is running"},
		"a full pool": {startWith(func(s *statepb.OperationSpec) { s.Pool = "small" }), CodePoolFull,
			`start operation: tree "default": pool "small": limit of 1 operations reached (option max_operation_count)`},
		"the root": {startWith(func(s *statepb.OperationSpec) { s.Pool = "<Root>" }), CodeInvalidPool, "use a pool below it"},
	})
}

func TestStepsAreRefused(t *testing.T) {
	advance := func(id, from, to string) *commandpb.AdvanceOperation {
		return &commandpb.AdvanceOperation{OperationId: id, Term: 1, From: from, To: to}
	}
	checkRefusals(t, map[string]refused{
		"of no operation":           {advance("gone", "starting", "waiting_for_agent"), CodeUnknownOperation, "gone"},
		"to no state":               {advance("new", "starting", "resting"), CodeInvalidCommand, `unknown operation state "resting"`},
		"from a state that is over": {advance("ann", "pending", "materializing"), CodeInvalidOperationState, `it is running, not "pending"`},
		"past the next one":         {advance("new", "starting", "initializing"), CodeInvalidOperationState, "it is starting, and there is no such transition"},
		"of the controller":         {advance("made", "materializing", "running"), CodeInvalidCommand, "only the command that reports the event makes this transition"},
		"to failing for no reason":  {advance("ann", "running", "failing"), CodeInvalidCommand, "the result, which says why, is missing"},
		"to the end with jobs":      {advance("ending", "aborting", "aborted"), CodeAllocationsLeft, "it has 1 allocations"},
		"after the end":             {advance("done", "completed", "failing"), CodeInvalidOperationState, "it is completed"},
		"into a pool that runs enough": {advance("waiting", "pending", "materializing"), CodePoolRunningLimit,
			`pool "slow": limit of 0 operations reached (option max_running_operation_count)`},
		"a reason to wait while running": {&commandpb.SetPendingReason{OperationId: "ann", Term: 1, Reasons: map[string]string{"default": "x"}},
			CodeInvalidOperationState, `it is already admitted to tree "default"`},
		"a reason to wait at the end": {&commandpb.SetPendingReason{OperationId: "ending", Term: 1}, CodeInvalidOperationState, "does not wait for a pool"},
		"a reason to wait elsewhere": {&commandpb.SetPendingReason{OperationId: "waiting", Term: 1, Reasons: map[string]string{"gpu": "x"}},
			CodeUnknownTree, `not in tree "gpu"`},
		"a reason to wait for nothing":   {&commandpb.SetPendingReason{OperationId: "gone", Term: 1}, CodeUnknownOperation, "gone"},
		"suspend what is suspended":      {&commandpb.SuspendOperation{OperationId: "held"}, CodeInvalidOperationState, "already suspended"},
		"suspend what ends":              {&commandpb.SuspendOperation{OperationId: "ending"}, CodeInvalidOperationState, "it is aborting already"},
		"suspend what is not there":      {&commandpb.SuspendOperation{OperationId: "gone"}, CodeUnknownOperation, "gone"},
		"resume what runs":               {&commandpb.ResumeOperation{OperationId: "ann"}, CodeInvalidOperationState, "it is running, but not suspended"},
		"resume what has ended":          {&commandpb.ResumeOperation{OperationId: "done"}, CodeInvalidOperationState, "it is completed already"},
		"abort what is being aborted":    {&commandpb.AbortOperation{OperationId: "ending"}, CodeInvalidOperationState, "it is aborting already"},
		"abort what has ended":           {&commandpb.AbortOperation{OperationId: "done"}, CodeInvalidOperationState, "it is completed already"},
		"complete what does not run yet": {&commandpb.CompleteOperation{OperationId: "made"}, CodeInvalidOperationState, "only a running operation"},
		"complete what ends":             {&commandpb.CompleteOperation{OperationId: "ending"}, CodeInvalidOperationState, "it is aborting already"},
		"stop jobs of nothing":           {&commandpb.StopJobs{OperationId: "gone", Order: &statepb.StopOrder{}}, CodeUnknownOperation, "gone"},
		"stop jobs without an order":     {&commandpb.StopJobs{OperationId: "ann"}, CodeInvalidCommand, "it has no stop order"},
		"stop jobs for no known reason": {&commandpb.StopJobs{OperationId: "ann", Order: &statepb.StopOrder{Reason: "mood"}},
			CodeInvalidCommand, `abort reason "mood"`},
		"stop jobs with a negative grace": {&commandpb.StopJobs{OperationId: "ann", Order: &statepb.StopOrder{GraceMillis: -1}},
			CodeInvalidCommand, "grace of -1 ms"},
		"abort jobs for no known reason": {&commandpb.AbortAllocations{Term: 1, Reason: "mood"}, CodeInvalidCommand, `abort reason "mood"`},
	})
}

func TestNodesAreRefused(t *testing.T) {
	checkRefusals(t, map[string]refused{
		"a node without a name":         {&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Incarnation: 1}}, CodeInvalidCommand, "no id"},
		"a node without a life":         {&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n3"}}, CodeInvalidCommand, "incarnation 0"},
		"a node with less than nothing": {&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n3", Incarnation: 1, Resources: &statepb.Resources{Memory: -1}}}, CodeInvalidCommand, "resource memory: negative amount -1"},
		"a node with more than all":     {&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n3", Incarnation: 1, Resources: &statepb.Resources{Memory: math.MaxInt64}}}, CodeInvalidCommand, "exceeds the limit,"},
		"an unknown node to drain":      {&commandpb.DrainNode{Node: "n3", User: "ann"}, CodeUnknownNode, `no node "n3"`},
		"an unknown node to undrain":    {&commandpb.UndrainNode{Node: "n3"}, CodeUnknownNode, `no node "n3"`},
		"a reason that is a book":       {&commandpb.DrainNode{Node: "n1", Reason: strings.Repeat("x", 1025)}, CodeInvalidCommand, "the limit is 1024"},
		"an unknown node offline":       {&commandpb.SetNodeOffline{Term: 1, Node: "n3", Incarnation: 1}, CodeUnknownNode, "n3"},
		"another life offline":          {&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 2}, CodeStaleIncarnation, "the current one is 1"},
	})
}

// TestLimitOfOperations shows the limit of the whole cluster.
func TestLimitOfOperations(t *testing.T) {
	j := newJournal(t)
	j.must(&commandpb.BeginTerm{Term: 1, Replica: "r1", Limits: &statepb.Limits{Operations: 1}})
	j.must(&commandpb.StartOperation{OperationId: "a", Spec: specOf(1)})
	result, _ := j.apply(&commandpb.StartOperation{OperationId: "b", Spec: specOf(1)})
	if got := result.GetRefusal().GetCode(); got != CodeTooManyOperations {
		t.Fatalf("got %v, want %s", result, CodeTooManyOperations)
	}
}

// TestLimitOfPools makes as many pools as a tree may have, in all ways, and one more.
// When the limit falls, what is there may still be edited.
func TestLimitOfPools(t *testing.T) {
	j := newJournal(t)
	limit := func(pools int32) *commandpb.BeginTerm {
		return &commandpb.BeginTerm{Term: 1, Replica: "r1", Limits: &statepb.Limits{PoolsPerTree: pools}}
	}
	spec := func(pool string) *statepb.OperationSpec {
		s := specOf(1)
		s.Pool = pool
		return s
	}
	j.must(limit(3), createPool("hub", "", map[string]any{"create_ephemeral_subpools": true}),
		&commandpb.StartOperation{OperationId: "a", User: "ann", Spec: spec("guest")})
	full := func(story string, msg proto.Message) {
		t.Helper()
		result, _ := j.apply(msg)
		got := result.GetRefusal()
		if got.GetCode() != CodeTooManyPools || !strings.Contains(got.GetMessage(), `tree "default" would have 4 pools instead of 3, but the limit pools_per_tree is 3: remove some`) {
			t.Errorf("%s: %v", story, result)
		}
	}
	full("a pool", createPool("more", "", nil))
	full("an ephemeral pool", &commandpb.StartOperation{OperationId: "b", User: "bob", Spec: spec("more")})
	full("a subpool", &commandpb.StartOperation{OperationId: "b", User: "bob", Spec: spec("hub")})
	// Its ephemeral pool goes when it moves.
	j.must(updateOf("a", "", to("hub"), nil), limit(1), changePool("hub", map[string]any{"weight": 2}),
		edit(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Remove{Remove: "default"}}))
}

// TestGrantsAreRefusedOneByOne shows that a grant that cannot be leaves the
// others of its batch alone.
func TestGrantsAreRefusedOneByOne(t *testing.T) {
	change := func(f func(*commandpb.Grant)) *commandpb.Grant {
		g := grantOf("x", "ann")
		f(g)
		return g
	}
	for story, test := range map[string]struct {
		grant       *commandpb.Grant
		wantRefusal string
		wantMessage string
	}{
		"a good one":              {grantOf("x", "ann"), "", ""},
		"no job id":               {grantOf("", "ann"), CodeInvalidCommand, "no id"},
		"a job that runs":         {grantOf("ann-0", "ann"), CodeDuplicateJob, `node "n1" already runs a job with this id for operation`},
		"an unknown operation":    {grantOf("x", "gone"), CodeUnknownOperation, `start job "x" of operation "gone"`},
		"one that is not running": {grantOf("x", "made"), CodeInvalidOperationState, "materializing"},
		"one that is ending":      {grantOf("x", "ending"), CodeInvalidOperationState, "aborting"},
		"one that is suspended":   {grantOf("x", "held"), CodeOperationSuspended, "suspended"},
		"an unknown task":         {change(func(g *commandpb.Grant) { g.Task = "u" }), CodeUnknownTask, `no task "u"`},
		"an unknown node":         {change(func(g *commandpb.Grant) { g.Node = "n9" }), CodeUnknownNode, "n9"},
		"a node offline":          {change(func(g *commandpb.Grant) { g.Node = "n2" }), CodeNodeOffline, "offline"},
		"a life that is over":     {change(func(g *commandpb.Grant) { g.NodeIncarnation = 0 }), CodeStaleIncarnation, "the current one is 1"},
		"a life to come":          {change(func(g *commandpb.Grant) { g.NodeIncarnation = 2 }), CodeStaleIncarnation, "incarnation 2 of the node requested"},
		"planned by another tree": {change(func(g *commandpb.Grant) { g.Tree = "gpu" }), CodeNotAdmitted, `has planned it, but the node belongs to tree "default"`},
		"more than there is": {change(func(g *commandpb.Grant) { g.Resources.Memory = 5001 }), CodeNodeFull,
			"resource memory: 5001 wanted, 5000 of 8000 left"},
		"less than nothing": {change(func(g *commandpb.Grant) { g.Resources.Memory = -1 }), CodeInvalidCommand, "negative"},
	} {
		t.Run(story, func(t *testing.T) {
			j := busy(t)
			result, _ := j.apply(&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{test.grant, grantOf("y", "ann")}})
			grants := result.GetStartAllocations().GetGrants()
			if got := grants[0]; got.GetRefusal() != test.wantRefusal || !strings.Contains(got.GetMessage(), test.wantMessage) {
				t.Errorf("got %v, want %s: …%s…", got, test.wantRefusal, test.wantMessage)
			}
			if got := grants[1]; got.GetRefusal() != "" {
				t.Errorf("the good grant beside it was refused: %v", got)
			}
		})
	}
}
