package simulate

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/scheduler"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/command"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// epoch is when simulated time begins: a midnight.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// replica is the only replica: it leads, and runs all controllers.
const replica = "r1"

// world is the cluster at one moment of the run.
type world struct {
	file  *File
	now   time.Duration
	queue queue
	state *state.State
	index uint64
	term  uint64
	// tree is nil while there is no leader.
	tree *scheduler.Tree
	// leaderless is the time until which there is no leader: nothing is decided or heard before
	// then.
	leaderless time.Duration
	// updated is the time of the last fair share update.
	updated time.Duration
	jobs    uint64
	// operations has the operations that have not ended, by id; pending has those that are not
	// admitted yet, by pool.
	operations map[string]*operation
	pending    map[scheduling.PoolName][]string
	// dead nodes are silent; the leader may not know it yet.
	dead    map[string]bool
	online  []string
	chance  *rand.Rand
	lengths *rand.PCG
	// occupied is the memory that jobs use, by node.
	occupied  map[string]int64
	meter     *meter
	estimates estimates
	// fifoStarts are jobs of FIFO pools that the current plan has started.
	fifoStarts []fifoStart
	// stale says that something has changed since the last fair share update.
	stale bool
	// events counts events; planned counts the commands that the scheduler proposed.
	events, planned uint64
}

// newWorld returns the cluster of a file before its first moment.
func newWorld(f *File) (*world, error) {
	w := &world{
		file: f, state: state.New(), operations: map[string]*operation{}, pending: map[scheduling.PoolName][]string{}, dead: map[string]bool{},
		chance: rand.New(rand.NewPCG(f.Seed, hash("failures"))), lengths: rand.NewPCG(0, 0), stale: true,
		occupied: map[string]int64{}, estimates: estimates{open: map[string][]int{}},
	}
	w.meter = newMeter(f)
	if err := w.beginTerm(); err != nil {
		return nil, err
	}
	if err := w.plantPools(); err != nil {
		return nil, err
	}
	for _, group := range f.Nodes {
		for i := range group.Count {
			node := &statepb.Node{Id: group.Name + strconv.FormatInt(i+1, 10), Incarnation: 1, Resources: statepb.NewResources(group.Resources), Tags: group.Tags}
			if err := w.do(&commandpb.RegisterNode{Term: w.term, Node: node}); err != nil {
				return nil, err
			}
			w.online = append(w.online, node.GetId())
		}
	}
	if err := w.fillVolumes(); err != nil {
		return nil, err
	}
	if err := w.elect(); err != nil {
		return nil, err
	}
	w.schedule()
	return w, nil
}

func (w *world) time() time.Time { return epoch.Add(w.now) }

func (w *world) timestamp() *timestamppb.Timestamp { return timestamppb.New(w.time()) }

// beginTerm proposes the first command of a leader. The limits in the command keep hardly any
// operations and jobs that have ended.
func (w *world) beginTerm() error {
	w.term++
	return w.do(&commandpb.BeginTerm{Term: w.term, Replica: replica, ClusterId: "simulation", Limits: &statepb.Limits{
		ArchivedOperations: 1, FinishedJobsPerOperation: 1, EventsPerOperation: 3, Operations: maxOperations, JobsPerOperation: maxJobs,
	}})
}

// maxOperations bounds the operations that have not ended.
const maxOperations = 1_000_000

// plantPools sets the pool tree to that of the file.
func (w *world) plantPools() error {
	edits := []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Options{Options: structOf(option.Write(w.file.Pools.Options()))}}}
	if !w.file.Pools.Has(scheduling.DefaultPool) {
		edits = append(edits, &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Remove{Remove: string(scheduling.DefaultPool)}})
	}
	for _, p := range w.file.Pools.ParentsFirst() {
		record := &statepb.Pool{Name: string(p.Name), Parent: string(p.Parent), Options: structOf(option.Write(p.Options))}
		edit := &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Create{Create: record}}
		if p.Name == scheduling.DefaultPool {
			edit = &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Set{Set: record}}
		}
		edits = append(edits, edit)
	}
	return w.do(&commandpb.EditTree{Edits: edits})
}

// structOf returns a document as a message.
func structOf(document map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(document)
	if err != nil {
		// Cannot happen: options hold only what a message can hold.
		panic(fmt.Sprintf("options: %v", err))
	}
	return s
}

// fillVolumes sets the initial volumes of pools.
func (w *world) fillVolumes() error {
	if len(w.file.Volumes) == 0 {
		return nil
	}
	m := &commandpb.CheckpointVolumes{Term: w.term, Time: w.timestamp(), Tree: string(scheduling.DefaultTree)}
	for _, p := range w.file.Pools.Pools() {
		if d := w.file.Volumes[p.Name]; d > 0 {
			m.Volumes = append(m.Volumes, statepb.NewPoolVolume(p.Name, p.ID, resource.VolumeOf(w.meter.total, d), 0, 0))
		}
	}
	return w.do(m)
}

// apply stamps a command, as a leader does, and applies it to the state machine, then to the tree and
// the meter.
func (w *world) apply(msg proto.Message) (*commandpb.Result, error) {
	w.index++
	command.Stamp(msg, w.time())
	result, events := w.state.Apply(w.index, msg)
	if refusal := result.GetRefusal(); refusal != nil {
		return result, &refusedError{refusal}
	}
	if w.tree != nil {
		if err := w.tree.Follow(w.index, events, w); err != nil {
			return result, err
		}
	}
	for _, e := range events {
		w.observe(e)
	}
	return result, nil
}

// do applies commands of which only the error matters.
func (w *world) do(commands ...proto.Message) error {
	for _, msg := range commands {
		if _, err := w.apply(msg); err != nil {
			return err
		}
	}
	return nil
}

// refusedError is the error of a command that the state machine has refused.
type refusedError struct{ *commandpb.Refusal }

// Error implements error.
func (e *refusedError) Error() string { return e.GetMessage() }

// observe accounts for the changes that a command made.
func (w *world) observe(e state.Event) {
	w.stale = true
	switch e := e.(type) {
	case state.AllocationsStarted:
		for _, a := range e.Allocations {
			w.started(a)
		}
	case state.AllocationsEnded:
		for _, ended := range e.Ended {
			op := w.operations[ended.Allocation.GetOperationId()]
			w.meter.ended(w.now, op, ended)
			w.occupy(op, ended.Allocation, -1)
		}
	case state.StopsOrdered:
		for _, a := range e.Allocations {
			w.ordered(a)
		}
	case state.DemandChanged:
		if op := w.operations[string(e.ID)]; op != nil {
			w.meter.wants(w.now, op, e.Group, e.Pending)
		}
	case state.OperationChanged:
		if op := w.operations[string(e.ID)]; op != nil && e.To.Finishing() {
			w.meter.wantsNothing(w.now, op)
		}
	}
}

// elect builds a tree from the state, as a new leader does, and offers it the nodes that are
// online.
func (w *world) elect() error {
	pools, _, _ := w.state.Pools(scheduling.DefaultTree)
	seed := scheduler.Seed{
		Tree: scheduling.DefaultTree, Index: w.index, Pools: pools, Allocations: w.state.Allocations(),
		Claims: w.state.Claims(scheduling.DefaultTree), Rates: w.state.PreemptionRates(scheduling.DefaultTree),
		Kept: w.Kept(scheduling.DefaultTree),
	}
	for _, node := range w.state.Nodes() {
		if node.GetTree() == string(scheduling.DefaultTree) {
			seed.Nodes = append(seed.Nodes, node)
		}
	}
	for op := range w.state.InProgress() {
		seed.Operations = append(seed.Operations, op)
		seed.Demand = append(seed.Demand, w.state.Demand(scheduling.OperationID(op.GetId()))...)
	}
	var err error
	if w.tree, err = scheduler.NewTree(engine.Default(), seed); err != nil {
		return err
	}
	w.stale = true
	for _, id := range w.online {
		node := w.NodeRecord(id)
		if w.dead[id] || node.GetState() != statepb.NodeOnline {
			continue
		}
		if err := w.tree.Offer(id, node.GetResources().Amounts()); err != nil {
			return err
		}
	}
	return nil
}

// nodesPerPlan is how many nodes one plan handles.
const nodesPerPlan = 1024

// plan hands out the resources of nodes that wait for it. Each plan is committed at once, so
// the state has no reason to refuse any part of it.
func (w *world) plan() error {
	for w.tree.Waiting() {
		proposal := w.tree.Plan(w.time(), w.term, nodesPerPlan, w.newID)
		var results []*commandpb.Result
		w.planned += uint64(len(proposal.Commands))
		for _, msg := range proposal.Commands {
			result, err := w.apply(msg)
			if err != nil {
				return fmt.Errorf("the engine planned what the state rejects: %w", err)
			}
			results = append(results, result)
			w.fifoStarts = unclaimed(w.fifoStarts, msg)
		}
		if len(w.fifoStarts) > 0 {
			w.inOrder(w.claimed())
		}
		answers := scheduler.AnswersOf(results)
		if err := refusalOf(answers); err != nil {
			return err
		}
		if err := w.tree.Settle(proposal, answers); err != nil {
			return err
		}
	}
	return nil
}

// refusalOf returns the first part of a plan that was refused.
func refusalOf(a scheduler.Answers) error {
	for _, answer := range a.Grants {
		if answer.GetRefusal() != "" {
			return fmt.Errorf("the engine planned a job that the state rejects: %s", answer.GetMessage())
		}
	}
	for _, answer := range a.Preemptions {
		if answer.GetRefusal() != "" {
			return fmt.Errorf("the engine planned a preemption that the state rejects: %s", answer.GetMessage())
		}
	}
	return nil
}

// draws returns a random source for a thing with this seed and number.
func (w *world) draws(seed, number uint64) *rand.Rand {
	w.lengths.Seed(seed, number)
	// The first outputs of similar seeds are similar.
	w.lengths.Uint64()
	return rand.New(w.lengths)
}

func (w *world) newID() string {
	w.jobs++
	// Ids of later jobs are greater, as in a real cluster.
	return fmt.Sprintf("j%011d", w.jobs)
}

// Pools implements scheduler.Records.
func (w *world) Pools(name scheduling.TreeName) (pooltree.Tree, bool) {
	pools, _, ok := w.state.Pools(name)
	return pools, ok
}

// Placed implements scheduler.Records.
func (w *world) Placed(tree scheduling.TreeName, id string) (*statepb.Operation, pooltree.Tree) {
	op, _ := w.Operation(id)
	pools, _, _ := w.state.Pools(tree)
	return op, pools
}

// Operation implements scheduler.Records. The tree reads the record before the next
// command changes it.
func (w *world) Operation(id string) (*statepb.Operation, int) {
	op, ok := w.state.Operation(scheduling.OperationID(id))
	if !ok {
		return nil, 0
	}
	if known := w.operations[id]; known != nil {
		return op, known.running
	}
	return op, 0
}

// Kept implements scheduler.Records.
func (w *world) Kept(tree scheduling.TreeName) *statepb.PoolTree {
	record, _ := w.state.Tree(tree)
	return record
}

// NodeRecord implements scheduler.Records.
func (w *world) NodeRecord(id string) *statepb.Node {
	node, _ := w.state.Node(scheduling.NodeID(id))
	return node
}
