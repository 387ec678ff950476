package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/invarianttest"
)

// set changes options of the tree.
func (w *world) set(options map[string]string) {
	w.t.Helper()
	values := map[string]*structpb.Value{}
	for name, value := range options {
		values[name] = structpb.NewStringValue(value)
	}
	w.change(values)
}

func (w *world) change(values map[string]*structpb.Value) {
	w.t.Helper()
	w.must(editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Change{Change: &commandpb.Changes{Values: values}}}))
}

// runOf leads an operation to running whose jobs need so many slots each, if its pool lets
// it run.
func (w *world) runOf(id, pool string, jobs int32, slots int64) {
	w.start(id, pool, jobs)
	for {
		op, _ := w.Operation(id)
		if op.GetState() == "materializing" {
			one := &statepb.Resources{UserSlots: slots, CpuHundredths: 100 * slots, Memory: 1000 * slots}
			w.must(&commandpb.DefineTasks{OperationId: id, Epoch: op.GetAssignment().GetEpoch(), Tasks: []*commandpb.TaskDefinition{
				{Name: "s", JobCount: jobs, JobResources: one}, {Name: "t", JobCount: 1, JobResources: one}}})
			return
		}
		if !w.step(id) {
			return
		}
	}
}

// beat lets so much time pass and has all nodes looked at; what is planned is committed.
func (w *world) beat(after time.Duration) Proposal {
	w.t.Helper()
	w.now = w.now.Add(after)
	for _, node := range w.nodes() {
		w.offer(node.GetId())
	}
	w.plan(len(w.state.Nodes()))
	var last Proposal
	if len(w.plans) > 0 {
		last = w.plans[len(w.plans)-1].Proposal
	}
	w.heal()
	return last
}

// elect has another leader go on from the state.
func (w *world) elect() {
	w.t.Helper()
	w.must(&commandpb.BeginTerm{Term: w.state.Term().GetTerm() + 1, Replica: "r2", ClusterId: "c1"})
	w.tree = w.rebuild()
	w.log = nil
}

// goers returns the jobs of an operation that have been told to go.
func (w *world) goers(operation string) []*statepb.Allocation {
	return slices.DeleteFunc(w.allocations(operation), func(a *statepb.Allocation) bool { return a.GetStop() == nil })
}

// pressed is a full node on which jobs of greedy have been told to go for the one of
// late, which needs two slots.
func pressed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.set(map[string]string{"fair_share_starvation_timeout": "2s", "preemptive_scheduling_backoff": "5s", "waiting_for_resources_on_node_timeout": "1m"})
	w.must(create("a", "", 1), create("b", "", 1), create("c", "", 1))
	w.register("n1", 1, 4)
	w.runOf("greedy", "a", 8, 1)
	w.heal()
	w.beat(0)
	w.runOf("late", "b", 1, 2)
	w.heal()
	for tries := 0; len(w.goers("greedy")) == 0; tries++ {
		if w.beat(time.Second); tries > 20 {
			t.Fatal("nobody goes for the one that starves")
		}
	}
	if got := len(w.goers("greedy")); got != 2 {
		t.Fatalf("%d jobs have been told to go, want 2", got)
	}
	return w
}

// TestClaimOutlivesLeader: the leader goes when all that left for a job have gone and it
// has not started. Under the next one the room is not given to others, the job starts in
// it, and nobody has to go again.
func TestClaimOutlivesLeader(t *testing.T) {
	for name, elect := range map[string]func(w *world, victims []*statepb.Allocation){
		"before they go": func(w *world, victims []*statepb.Allocation) {
			w.elect()
			w.finish("greedy", "aborted", victims)
		},
		"when one has gone": func(w *world, victims []*statepb.Allocation) {
			w.finish("greedy", "aborted", victims[:1])
			w.elect()
			w.finish("greedy", "aborted", victims[1:])
		},
		"when all have gone": func(w *world, victims []*statepb.Allocation) {
			w.finish("greedy", "aborted", victims)
			w.elect()
		},
		"and again": func(w *world, victims []*statepb.Allocation) {
			w.elect()
			w.finish("greedy", "aborted", victims)
			w.elect()
			w.elect()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := pressed(t)
			// It was there first, and has had nothing yet.
			w.runOf("thief", "c", 5, 1)
			w.heal()
			elect(w, w.goers("greedy"))
			w.heal()
			if got := w.state.Claims(scheduling.DefaultTree); len(got) != 1 || got[0].GetBeneficiary().GetOperationId() != "late" {
				t.Fatalf("claims %v", got)
			}
			w.beat(time.Second)
			jobs := map[string]int{}
			for _, a := range w.state.Allocations() {
				jobs[fmt.Sprint(a.GetOperationId(), " goes ", a.GetStop() != nil)]++
			}
			if want := map[string]int{"greedy goes false": 2, "late goes false": 1}; !maps.Equal(jobs, want) {
				t.Errorf("jobs %v, want %v", jobs, want)
			}
			op, _ := w.state.Operation("late")
			if got := op.GetPreemptedOthers()["preemption"]; got != 2 {
				t.Errorf("%d jobs had to go for it, want 2", got)
			}
			if got := w.state.Claims(scheduling.DefaultTree); len(got) != 0 {
				t.Errorf("its job has started, and there are claims %v", got)
			}
			if err := invarianttest.Check(w.tree.engine); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOrdersOfOld: orders of a leader that named no claim hold what their jobs leave, as
// long as these have not gone.
func TestOrdersOfOld(t *testing.T) {
	w := pressed(t)
	seed := w.seed()
	seed.Claims = nil
	for i, a := range seed.Allocations {
		if a.GetStop() != nil {
			seed.Allocations[i] = proto.CloneOf(a)
			seed.Allocations[i].Stop.PlannedTime, seed.Allocations[i].Stop.PreemptedFor.HoldMillis = nil, 0
		}
	}
	tree, err := NewTree(engine.Default(), seed)
	if err != nil {
		t.Fatal(err)
	}
	if got := tree.Snapshot().Claims; len(got) != 1 || got[0].Victims != 2 || got[0].Operation != "late" {
		t.Errorf("claims %+v, want one with 2 victims", got)
	}
}

// TestLostNodeHoldsNothing: who waits for room on a node that is lost may start elsewhere.
func TestLostNodeHoldsNothing(t *testing.T) {
	w := pressed(t)
	w.must(&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1})
	w.heal()
	if got := w.tree.Snapshot().Claims; len(got) != 0 || len(w.state.Claims(scheduling.DefaultTree)) != 0 {
		t.Errorf("claims %+v", got)
	}
}

// TestNewLeaderDecidesAlike: a tree that was made of the state decides what one decides
// that has lived through it. What only the old one knows is left out of the scenarios, or
// made equal: for how long who is below its fair share (both go on until that is a
// starvation), who took from whom (an age begins), looks for victims that found none (their
// backoff passes), what somebody lacked over time (it is forgotten), what is kept free for
// jobs (its time passes), and no operation is a gang or preempted gracefully. Of those that use equally much the new one does not know
// who had the last of the turns whose jobs have ended.
func TestNewLeaderDecidesAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		g := pressure{chance{t, w}}
		backoff := g.begin()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			g.step()
			w.heal()
			if err := invarianttest.Check(w.tree.engine); err != nil {
				t.Fatal(err)
			}
		}
		w.start("last", "", 1)
		w.heal()
		w.now = w.now.Add(time.Second)
		g.forget()
		again := w.rebuild()
		for _, tree := range []*Tree{w.tree, again} {
			for _, node := range w.nodes() {
				if node.GetState() == statepb.NodeOnline {
					if err := tree.Offer(node.GetId(), node.GetResources().Amounts()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for _, at := range g.times(again, backoff) {
			for _, tree := range []*Tree{w.tree, again} {
				if err := tree.Tick(at); err != nil {
					t.Fatal(err)
				}
			}
			w.now = at
		}
		if diff := cmp.Diff(claimsOf(w.tree), claimsOf(again)); diff != "" {
			t.Fatalf("a new leader would hold (+), the old one holds (-):\n%s", diff)
		}
		ties := tiesOf(w.tree)
		before, after := planOf(w, w.tree), planOf(w, again)
		if diff := cmp.Diff(before, after, protocmp.Transform()); diff != "" && !ties.explain(before, after) {
			t.Fatalf("a new leader would decide (+), the old one decides (-):\n%s", diff)
		}
	})
}

// pressure draws what happens in a cluster in which jobs are preempted.
type pressure struct{ chance }

func (g pressure) begin() (backoff time.Duration) {
	backoff = rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute}).Draw(g.T, "backoff")
	g.w.set(map[string]string{
		"fair_share_starvation_timeout": "1s", "best_allocation_share_update_period": "1ms", "preemptive_scheduling_backoff": backoff.String(),
		"waiting_for_resources_on_node_timeout": g.one([]string{"5s", "1m"}, "hold"),
		// What is kept free for a job is the leader's own, and is over in the end.
		"gang_timeout": "1s",
	})
	for i, name := range []string{"a", "b", "c"} {
		g.w.must(create(name, []string{"", "", g.one([]string{"", "a"}, "parent")}[i], float64(1+g.pick(3, "weight"))))
		if limit := g.pick(4, "limit"); limit > 0 {
			g.w.must(editOf(&commandpb.TreeEdit{Edit: &commandpb.TreeEdit_ChangePool{ChangePool: &commandpb.PoolChange{Name: name, Options: &commandpb.Changes{
				Values: map[string]*structpb.Value{"preemption_rate_limit": structpb.NewNumberValue(float64(limit))}}}}}))
		}
	}
	for i := range 1 + g.pick(3, "nodes") {
		g.w.register(fmt.Sprint("n", i+1), 1, int64(3+g.pick(3, "slots")))
	}
	g.w.runOf("op0", "a", 10, 1)
	g.w.heal()
	g.w.beat(time.Second)
	return backoff
}

func (g pressure) step() {
	steps := []func(){g.beat, g.beat, g.beat, g.beat, g.begins, g.begins, g.goes, g.goes, g.goes, g.ends, g.steers, g.loses}
	rapid.SampledFrom(steps).Draw(g.T, "step")()
}

func (g pressure) beat() { g.w.beat(time.Duration(1+g.pick(8, "seconds")) * time.Second) }

func (g pressure) begins() {
	g.w.runOf(fmt.Sprint("op", g.w.index), g.one([]string{"a", "b", "c"}, "pool"), int32(1+g.pick(4, "jobs")), int64(1+g.pick(3, "slots")))
}

// goes ends some of the jobs that have been told to go.
func (g pressure) goes() {
	id := g.operation()
	if jobs := g.w.goers(id); len(jobs) > 0 {
		g.w.finish(id, "aborted", jobs[:1+g.pick(len(jobs), "gone")])
	}
}

func (g pressure) ends() {
	id := g.operation()
	if jobs := g.w.allocations(id); len(jobs) > 0 {
		g.w.finish(id, "completed", jobs[:1])
	}
}

func (g pressure) steers() {
	id := g.operation()
	g.w.apply([]proto.Message{
		&commandpb.SuspendOperation{OperationId: id, User: "ann"}, &commandpb.ResumeOperation{OperationId: id, User: "ann"},
		&commandpb.AbortOperation{OperationId: id, User: "ann"},
	}[g.pick(3, "how")])
	g.w.heal()
	g.w.step(id)
}

// loses has a node lost, with its jobs, or back.
func (g pressure) loses() {
	w, id := g.w, g.nodeID()
	known := w.NodeRecord(id)
	switch {
	case known == nil:
	case known.GetState() == statepb.NodeOnline:
		w.must(&commandpb.SetNodeOffline{Term: 1, Node: id, Incarnation: known.GetIncarnation()})
		w.heal()
		lost := &commandpb.AbortAllocations{Term: 1, Reason: "node_offline", Node: id}
		for _, a := range w.state.AllocationsOfNode(scheduling.NodeID(id)) {
			lost.JobIds = append(lost.JobIds, a.GetJobId())
		}
		w.must(lost)
	default:
		w.register(id, known.GetIncarnation()+uint64(g.pick(2, "new life")), known.GetResources().GetUserSlots())
	}
}

// forget has the old tree forget what somebody lacked over time, of which a new one knows
// nothing: where pools go by their operations nobody lacks anything.
func (g pressure) forget() {
	g.w.change(map[string]*structpb.Value{"use_pool_satisfaction_for_scheduling": structpb.NewBoolValue(false)})
	g.w.heal()
	if err := g.w.tree.Tick(g.w.now); err != nil {
		g.Fatal(err)
	}
}

// times are those of the updates after which both trees are asked: who is below its fair
// share starves by then, and where only the old one has looked in vain its backoff is over.
func (g pressure) times(again *Tree, backoff time.Duration) []time.Time {
	now := g.w.now
	last := now.Add(2 * time.Second)
	tried := map[scheduling.NodeID]time.Time{}
	for _, node := range again.Snapshot().Nodes {
		tried[node.ID] = node.Attempted
	}
	for _, node := range g.w.tree.Snapshot().Nodes {
		if record := g.w.NodeRecord(string(node.ID)); record.GetPreemptedTime().AsTime().Equal(node.Attempted) && !tried[node.ID].Equal(node.Attempted) {
			g.Fatalf("jobs of node %s were preempted at %v, a new leader would think at %v", node.ID, node.Attempted, tried[node.ID])
		}
		if over := node.Attempted.Add(backoff); !node.Attempted.Equal(tried[node.ID]) && over.After(last) {
			last = over
		}
	}
	return []time.Time{now, now.Add(time.Second), last}
}

// claimsOf are what a tree holds for whom.
func claimsOf(t *Tree) (all []string) {
	for _, c := range t.Snapshot().Claims {
		all = append(all, fmt.Sprintf("%s: %s/%s %v of %s, %d have to go, until %s", c.Node, c.Operation, c.Task, c.Resources,
			c.Ordered.Format(time.TimeOnly), c.Victims, c.Expires.Format(time.TimeOnly)))
	}
	return all
}

// planOf is what a tree plans for all nodes, without the words for people: they say since
// when who starves.
func planOf(w *world, t *Tree) []proto.Message {
	t.nodes.queue = nil
	clear(t.nodes.queued)
	for _, node := range w.nodes() {
		t.nodes.enqueue(node.GetId())
	}
	jobs := 0
	p := t.Plan(w.now, 1, len(t.nodes.queue), func() string { jobs++; return fmt.Sprint("new", jobs) })
	for _, command := range p.Commands {
		if m, ok := command.(*commandpb.PreemptAllocations); ok {
			for _, preemption := range m.GetPreemptions() {
				preemption.Order.Message = ""
			}
		}
	}
	return p.Commands
}
