package scheduler

import (
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
	"weir/scheduling/pooltree"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a replicated state and a tree that follows its log, late. The records
// that the tree reads are those of the state: newer than the event.
type world struct {
	t     tester
	state *state.State
	tree  *Tree
	index uint64
	now   time.Time
	// log are entries that the tree has not seen.
	log []entry
	// plans are proposals on their way.
	plans []plan
	jobs  int
}

type entry struct {
	index  uint64
	events []state.Event
}

// plan is what the tree proposed. Its outcome is told once; what is applied after
// that was believed lost.
type plan struct {
	Proposal
	told bool
}

// shelf has what ended operations leave, all of them.
type shelf struct{}

// Put implements state.Shelf.
func (shelf) Put(record []byte) state.Shelved { return state.Held(record) }

func newWorld(t tester) *world {
	w := &world{t: t, state: state.New(), now: noon}
	state.UseShelf(w.state, shelf{}, 0)
	w.must(&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1"})
	w.tree = w.rebuild()
	w.log = nil
	return w
}

// apply makes msg the next entry of the log.
func (w *world) apply(msg proto.Message) *commandpb.Result {
	w.index++
	w.now = w.now.Add(time.Second)
	m := msg.ProtoReflect()
	if field := m.Descriptor().Fields().ByName("time"); field != nil && !m.Has(field) {
		m.Set(field, protoreflect.ValueOfMessage(timestamppb.New(w.now).ProtoReflect()))
	}
	result, events := w.state.Apply(w.index, msg)
	if len(events) > 0 {
		w.log = append(w.log, entry{w.index, events})
	}
	return result
}

func (w *world) must(messages ...proto.Message) {
	w.t.Helper()
	for _, msg := range messages {
		if r := w.apply(msg).GetRefusal(); r != nil {
			w.t.Fatalf("%T %v: refused: %s", msg, msg, r.GetMessage())
		}
	}
}

// deliver lets the tree see the next n entries.
func (w *world) deliver(n int) {
	w.t.Helper()
	for ; n > 0 && len(w.log) > 0; n-- {
		if err := w.tree.Follow(w.log[0].index, w.log[0].events, w); err != nil {
			w.t.Fatalf("follow: %v", err)
		}
		w.log = w.log[1:]
	}
}

// plan has the tree look at n nodes.
func (w *world) plan(n int) {
	w.t.Helper()
	if err := w.tree.Tick(w.now); err != nil {
		w.t.Fatalf("tick: %v", err)
	}
	proposal := w.tree.Plan(w.now, w.state.Term().GetTerm(), n, func() string { w.jobs++; return fmt.Sprint("j", w.jobs) })
	if len(proposal.Commands) > 0 {
		w.plans = append(w.plans, plan{Proposal: proposal})
	}
}

// commit applies a proposal on its way and returns the answers to it.
func (w *world) commit(p plan) Answers {
	var results []*commandpb.Result
	for _, msg := range p.Commands {
		results = append(results, w.apply(msg))
	}
	return AnswersOf(results)
}

// lost is what is known of a proposal that was not committed.
var lost Answers

func (w *world) settle(p plan, answers Answers) {
	w.t.Helper()
	if err := w.tree.Settle(p.Proposal, answers); err != nil {
		w.t.Fatalf("settle: %v", err)
	}
}

// heal ends what is on its way, and lets the tree see all.
func (w *world) heal() {
	w.t.Helper()
	for _, p := range w.plans {
		if !p.told {
			w.settle(p, w.commit(p))
		}
	}
	w.plans = nil
	w.deliver(len(w.log))
}

// rebuild returns the tree that a new leader would make.
func (w *world) rebuild() *Tree {
	w.t.Helper()
	tree, err := NewTree(engine.Default(), w.seed())
	if err != nil {
		w.t.Fatalf("rebuild: %v", err)
	}
	return tree
}

func (w *world) seed() Seed {
	pools, _, _ := w.state.Pools(scheduling.DefaultTree)
	seed := Seed{Tree: scheduling.DefaultTree, Index: w.state.LastIndex(), Pools: pools, Nodes: w.nodes()}
	seed.Kept = w.Kept(scheduling.DefaultTree)
	seed.Claims, seed.Rates = w.state.Claims(scheduling.DefaultTree), w.state.PreemptionRates(scheduling.DefaultTree)
	for _, node := range seed.Nodes {
		seed.Allocations = append(seed.Allocations, w.state.AllocationsOfNode(scheduling.NodeID(node.GetId()))...)
	}
	for op := range w.operations() {
		seed.Operations = append(seed.Operations, proto.CloneOf(op))
		seed.Demand = append(seed.Demand, w.state.Demand(scheduling.OperationID(op.GetId()))...)
	}
	return seed
}

// nodes returns the nodes of the tree.
func (w *world) nodes() (nodes []*statepb.Node) {
	for _, node := range w.state.Nodes() {
		if node.GetTree() == string(scheduling.DefaultTree) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// operations yields the operations in progress in the tree.
func (w *world) operations() iter.Seq[*statepb.Operation] {
	return func(yield func(*statepb.Operation) bool) {
		for op := range w.state.InProgress() {
			if op.In(string(scheduling.DefaultTree)) != nil && !yield(op) {
				return
			}
		}
	}
}

// Pools implements Records.
func (w *world) Pools(name scheduling.TreeName) (pooltree.Tree, bool) {
	pools, _, ok := w.state.Pools(name)
	return pools, ok
}

// checkpoint is what a tree would leave to the next leader.
func (w *world) checkpoint(tree *Tree) proto.Message {
	return tree.Checkpoint(w.state.Term().GetTerm(), w.Kept(scheduling.DefaultTree))
}

// Kept implements Records.
func (w *world) Kept(name scheduling.TreeName) *statepb.PoolTree {
	record, _ := w.state.Tree(name)
	return record
}

// Placed implements Records.
func (w *world) Placed(tree scheduling.TreeName, id string) (*statepb.Operation, pooltree.Tree) {
	op, _ := w.Operation(id)
	pools, _, _ := w.state.Pools(tree)
	return op, pools
}

// Operation implements Records.
func (w *world) Operation(id string) (*statepb.Operation, int) {
	op, ok := w.state.Operation(scheduling.OperationID(id))
	if !ok {
		return nil, 0
	}
	return proto.CloneOf(op), len(w.state.AllocationsOfOperation(scheduling.OperationID(id)))
}

// NodeRecord implements Records.
func (w *world) NodeRecord(id string) *statepb.Node {
	node, _ := w.state.Node(scheduling.NodeID(id))
	return node
}

// register makes a node online in a life of its own.
func (w *world) register(id string, incarnation uint64, slots int64, tags ...string) {
	w.apply(&commandpb.RegisterNode{Term: w.state.Term().GetTerm(), Node: &statepb.Node{
		Id: id, Incarnation: incarnation, Tags: tags, Resources: &statepb.Resources{UserSlots: slots, CpuHundredths: 100 * slots, Memory: 1000 * slots},
	}})
}

// offer says that a node that is online has been heard.
func (w *world) offer(id string) {
	w.t.Helper()
	node := w.NodeRecord(id)
	if node.GetState() != statepb.NodeOnline {
		return
	}
	if err := w.tree.Offer(id, node.GetResources().Amounts()); err != nil {
		w.t.Fatalf("offer: %v", err)
	}
}

func (w *world) start(id, pool string, jobs int32, trees ...string) {
	w.apply(&commandpb.StartOperation{OperationId: id, User: "ann", Spec: &statepb.OperationSpec{
		Type: "vanilla", Pool: pool, PoolTrees: trees, MaxFailedJobCount: 100, Tasks: []*statepb.TaskSpec{{Name: "s", JobCount: jobs, InterruptionSignal: "SIGTERM"}, {Name: "t", JobCount: 1}},
	}})
}

// step takes the next step in the life of an operation; false: nothing is due.
func (w *world) step(id string) bool {
	op, _ := w.Operation(id)
	now, err := lifecycle.ParseState(op.GetState())
	if err != nil || now.Terminal() || now == lifecycle.Running {
		return false
	}
	term, epoch := w.state.Term().GetTerm(), op.GetAssignment().GetEpoch()
	to := func(next lifecycle.State) proto.Message {
		return &commandpb.AdvanceOperation{OperationId: id, Term: term, From: op.GetState(), To: next.String()}
	}
	var msg proto.Message
	switch now {
	case lifecycle.Starting:
		msg = to(lifecycle.WaitingForAgent)
	case lifecycle.WaitingForAgent:
		msg = &commandpb.AssignController{Term: term, Assignments: []*commandpb.ControllerAssignment{{OperationId: id, Replica: "r1", Epoch: epoch + 1}}}
	case lifecycle.Initializing:
		msg = &commandpb.PrepareOperation{OperationId: id, Epoch: epoch}
	case lifecycle.Pending:
		msg = to(lifecycle.Materializing)
	case lifecycle.Materializing:
		define := &commandpb.DefineTasks{OperationId: id, Epoch: epoch}
		for _, task := range op.GetSpec().GetTasks() {
			define.Tasks = append(define.Tasks, &commandpb.TaskDefinition{Name: task.GetName(), JobCount: task.GetJobCount(), JobResources: oneJob()})
		}
		msg = define
	case lifecycle.Completing:
		msg = to(lifecycle.Completed)
	case lifecycle.Failing:
		msg = to(lifecycle.Failed)
	default:
		msg = to(lifecycle.Aborted)
	}
	return w.apply(msg).GetRefusal() == nil
}

// run leads a new operation to running.
func (w *world) run(id, pool string, jobs int32) {
	w.start(id, pool, jobs)
	for w.step(id) {
	}
}

// finish ends jobs of an operation.
func (w *world) finish(id, state string, jobs []*statepb.Allocation) {
	op, _ := w.Operation(id)
	msg := &commandpb.FinishJobs{OperationId: id, Epoch: op.GetAssignment().GetEpoch()}
	for _, a := range jobs {
		job := &statepb.FinishedJob{JobId: a.GetJobId(), Node: a.GetNode(), State: state, Task: a.GetTask()}
		if state == "aborted" {
			job.AbortReason = "preemption"
		}
		msg.Jobs = append(msg.Jobs, job)
	}
	w.apply(msg)
}

// allocations returns those of an operation, on nodes of all trees.
func (w *world) allocations(operation string) []*statepb.Allocation {
	return w.state.AllocationsOfOperation(scheduling.OperationID(operation))
}

func oneJob() *statepb.Resources {
	return &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1000}
}

// create makes a pool.
func create(name, parent string, weight float64) *commandpb.EditTree {
	options := &structpb.Struct{Fields: map[string]*structpb.Value{"weight": structpb.NewNumberValue(weight)}}
	return editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: name, Parent: parent, Options: options}}})
}

func remove(name string) *commandpb.EditTree {
	return editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Remove{Remove: name}})
}

func rename(from, to string) *commandpb.EditTree {
	return editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: from, To: to}}})
}

func filter(text string) *commandpb.EditTree {
	return editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{
		Values: map[string]*structpb.Value{"nodes_filter": structpb.NewStringValue(text)}}}})
}

func editOf(e *commandpb.TreeEdit) *commandpb.EditTree {
	return &commandpb.EditTree{Edits: []*commandpb.TreeEdit{e}}
}

// move changes the pool of an operation in the tree.
func move(operation, pool string) *commandpb.UpdateOperation {
	return &commandpb.UpdateOperation{OperationId: operation, User: "ann", Changes: []*commandpb.OperationChange{
		{Tree: string(scheduling.DefaultTree), Pool: &pool}}}
}

// secondTree gives the nodes with the tag gpu to another tree.
func (w *world) secondTree() {
	w.t.Helper()
	w.must(filter("!gpu"), &commandpb.CreateTree{Tree: "gpu", Options: &structpb.Struct{Fields: map[string]*structpb.Value{
		"nodes_filter": structpb.NewStringValue("gpu")}}})
}

// forget drops an ended operation from the archive.
func (w *world) forget(id string) {
	w.t.Helper()
	w.must(&commandpb.BeginTerm{Term: w.state.Term().GetTerm(), Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{
		ArchivedOperations: 1, FinishedJobsPerOperation: 3, EventsPerOperation: 20, Operations: 10, JobsPerOperation: 20,
	}})
	w.run("last", "", 1)
	w.must(&commandpb.AbortOperation{OperationId: "last", User: "ann", Reason: "enough"})
	w.step("last")
	if op, _ := w.Operation(id); op != nil {
		w.t.Fatalf("operation %s is %s, want it forgotten", id, op.GetState())
	}
}
