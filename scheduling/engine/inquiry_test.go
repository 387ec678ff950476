package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/pooltree"
)

// TestNodesAreCountedOnceWhileOthersComeAndGo: a question about many nodes is answered in
// steps. Each node that is there all the time counts, and none counts twice.
func TestNodesAreCountedOnceWhileOthersComeAndGo(t *testing.T) {
	const stay, leave = 5000, 10
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 0))
		e := newEngine(t)
		// Those that stay have tags, and are too small; those that come and go have none.
		var ids []scheduling.NodeID
		for i := range stay + leave {
			ids = append(ids, scheduling.NodeID(fmt.Sprint("n", i)))
		}
		chance.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for i, id := range ids {
			var tags []string
			if i%(len(ids)/leave) != 0 {
				tags = []string{"stays"}
			}
			must(t, e.SetNode(id, slotsOf(1), true, tags...))
		}
		op := engine.Operation{ID: "op", Pool: scheduling.RootPool, Weight: 1, Started: begin, Enabled: true}
		filter, err := pooltree.ParseFilter("stays")
		must(t, err)
		op.Options.TagFilter = &filter
		must(t, e.AddOperation(op))
		must(t, e.SetDemand("op", "t", 0, 1, slotsOf(2)))
		q, err := e.Inquire("op", begin)
		must(t, err)
		steps := 0
		for done := false; !done; done = q.Reason() {
			for ; q.Wants(); steps++ {
				e.Attend(q)
				must(t, e.SetNode(scheduling.NodeID(fmt.Sprint("late", steps)), slotsOf(1), true))
				for range 3 {
					if at := chance.IntN(leave) * (len(ids) / leave); ids[at] != "" {
						must(t, e.RemoveNode(ids[at]))
						ids[at] = ""
					}
				}
			}
		}
		if got := q.Explanation().Tasks[0].Nodes; got.TooSmall != stay || steps < 3 {
			t.Fatalf("seed %d: in %d steps counted %+v, want %d that stay", seed, steps, got, stay)
		}
	}
}

// TestReasonBesideTheEngine has the engine go on with all that it does while what it has
// said is thought about: the race detector looks for what both touch.
func TestReasonBesideTheEngine(t *testing.T) {
	d := newDrive(t, options{"fair_share_starvation_timeout": "5s", "preemptive_scheduling_backoff": "1s"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
	d.takes = time.Second
	nodes := []scheduling.NodeID{"n1", "n2", "n3"}
	for _, n := range nodes {
		d.node(n, 4, "some")
	}
	d.wants("greedy", "a", 40, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, nodes...)
	d.wants("op", "b", 9, slotsOf(2), options{"scheduling_tag_filter": "some"})
	came := 0
	for round := range 30 {
		var inquiries []*engine.Inquiry
		for _, begin := range []func() (*engine.Inquiry, error){
			func() (*engine.Inquiry, error) { return d.Inquire("op", d.now) },
			func() (*engine.Inquiry, error) { return d.InquirePool(scheduling.RootPool, d.now) },
		} {
			q, err := begin()
			must(t, err)
			inquiries = append(inquiries, q)
		}
		for _, q := range inquiries {
			for done := false; !done; {
				for q.Wants() {
					d.Attend(q)
				}
				reasoned := make(chan bool, 1)
				go func() { reasoned <- q.Reason() }()
				d.node(nodes[round%3], int64(4+round%2), []string{"some", "other"}[round%2])
				came++
				id := scheduling.OperationID(fmt.Sprint("new", came))
				d.wants(id, "b", 1, slotsOf(1), options{"scheduling_tag_filter": fmt.Sprint("tag", round)})
				must(t, d.RemoveOperation(id))
				d.pass(time.Second, time.Second, nodes...)
				done = <-reasoned
			}
			if q.Explanation().Verdict == "" {
				t.Fatal("there is no answer")
			}
		}
	}
}

// TestAnOperationEndsWhileSomebodyAsksWhy: the answer is about what there was.
func TestAnOperationEndsWhileSomebodyAsksWhy(t *testing.T) {
	for name, ends := range map[string]func(d *drive){
		"the operation": func(d *drive) { must(d.t, d.RemoveOperation("op")) },
		"the node":      func(d *drive) { must(d.t, d.RemoveNode("n1")) },
		"all shares are found anew": func(d *drive) {
			must(d.t, d.RemoveOperation("greedy"))
			d.tick(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, options{"fair_share_starvation_timeout": "1m"}, map[scheduling.PoolName]pool{"a": {}, "b": {}})
			d.node("n1", 4)
			d.wants("greedy", "a", 9, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, "n1")
			d.wants("op", "b", 2, slotsOf(1), nil)
			d.tick(time.Second)
			q, err := d.Inquire("op", d.now)
			must(t, err)
			ended := false
			for done := false; !done; {
				for q.Wants() {
					d.Attend(q)
				}
				if done = q.Reason(); !done && !ended {
					ends(d)
					ended = true
				}
			}
			if x := q.Explanation(); !ended || x.Verdict != explain.FactLacking || x.Position != 1 {
				t.Errorf("ended: %t; %s", ended, textOf(x))
			}
		})
	}
}

// TestFiltersComeWhileAPoolIsAskedAbout: operations with filters that are newer than what
// was seen of the nodes are answered for, too.
func TestFiltersComeWhileAPoolIsAskedAbout(t *testing.T) {
	e := newEngine(t)
	must(t, e.SetNode("n1", slotsOf(1), true, "old"))
	const many = 300
	ids := make([]scheduling.OperationID, many)
	for i := range ids {
		ids[i] = scheduling.OperationID(fmt.Sprintf("op%03d", i))
		must(t, e.AddOperation(engine.Operation{ID: ids[i], Pool: scheduling.RootPool, Weight: 1, Started: begin, Enabled: true}))
		must(t, e.SetDemand(ids[i], "t", 0, 1, slotsOf(2)))
	}
	q, err := e.InquirePool(scheduling.RootPool, begin)
	must(t, err)
	for steps := 0; q.Wants(); steps++ {
		e.Attend(q)
		if steps != 2 {
			continue
		}
		// All of them get a filter while some have been asked.
		for i, id := range ids {
			filter, err := pooltree.ParseFilter(fmt.Sprint("new", i))
			must(t, err)
			op := engine.Operation{ID: id, Pool: scheduling.RootPool, Weight: 1, Started: begin, Enabled: true}
			op.Options.TagFilter = &filter
			must(t, e.SetOperation(op))
		}
	}
	if !q.Reason() {
		t.Fatal("a pool takes one turn")
	}
	x := q.Explanation()
	if len(x.Waits) != 2 || x.Waits[0].Operations+x.Waits[1].Operations != many {
		t.Fatalf("they wait for %+v", x.Waits)
	}
}

// TestExplainPoolCountsWhatOperationsWaitFor has operations that wait for several things.
func TestExplainPoolCountsWhatOperationsWaitFor(t *testing.T) {
	d := newDrive(t, nil, map[scheduling.PoolName]pool{"top": {}, "a": {parent: "top"}, "limited": {parent: "top", options: options{"resource_limits": options{"cpu": 1.0}}}, "other": {}})
	d.node("n1", 4)
	d.wants("runs", "a", 1, slotsOf(1), nil)
	d.wants("bound-1", "limited", 4, slotsOf(1), nil)
	d.wants("bound-2", "limited", 3, slotsOf(1), nil)
	d.wants("large", "a", 2, slotsOf(5), nil)
	d.wants("elsewhere", "other", 2, slotsOf(5), nil)
	suspended := d.record("suspended", "a", nil)
	suspended.Suspended = true
	d.wants("suspended", "a", 6, slotsOf(1), nil)
	must(t, d.SetOperation(suspended))
	d.pass(3*time.Second, time.Second, "n1")
	for pool, want := range map[scheduling.PoolName]string{
		"top":               "[{limit_reached 2 6 bound-1} {no_node_big_enough 1 2 large} {suspended 1 6 suspended}]",
		"limited":           "[{limit_reached 2 6 bound-1}]",
		"other":             "[{no_node_big_enough 1 2 elsewhere}]",
		scheduling.RootPool: "[{limit_reached 2 6 bound-1} {no_node_big_enough 2 4 large} {suspended 1 6 suspended}]",
	} {
		x, err := d.ExplainPool(pool, d.now)
		must(t, err)
		type wait struct {
			verdict    string
			operations int
			jobs       int64
			first      scheduling.OperationID
		}
		var got []wait
		for _, w := range x.Waits {
			if w.Text == "" {
				t.Errorf("%s: nothing is said of %s", pool, w.Verdict)
			}
			got = append(got, wait{w.Verdict, w.Operations, w.Jobs, w.First})
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", pool, got, want)
		}
		fact(t, x, explain.FactWaits)
	}
}
