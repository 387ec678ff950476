package e2e

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/messages/apipb"
)

// slots is how many cores each agent of a tree has; a job of these tests takes one.
const slots = 16

// TestFairShares is what pools and pool trees promise, on a cluster with a tree for
// each of its agents, told apart by their tags.
func TestFairShares(t *testing.T) {
	trees := map[string]string{"n1": "wide", "n2": "narrow", "n3": "saving"}
	c := newCluster(t, here, "n1", "n2", "n3", "n4", "n5")
	c.ready(t, 0)
	c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"nodes_filter": "!wide & !narrow & !saving"}}, &apipb.SetTreeResponse{})
	for agent, tree := range trees {
		c.ask(t, "TreeService/Create", object{"tree": tree, "options": object{"nodes_filter": tree}}, &apipb.CreateTreeResponse{})
		c.startAgent(agent, "--user-slots", "64", "--tags", tree)
	}
	c.startAgent("n4", "--user-slots", "64")
	c.ready(t, 4)
	nodeOfTwoTrees(t, c)
	// Those of a tree share its agent one after another.
	for tree, parts := range map[string][]func(*testing.T, *cluster){
		"wide":    {weightsOfThree, mostOfAPool, guarantee},
		"narrow":  {fifo, slotsOfAPool, differentlyInTwoTrees},
		"default": {closedPool, rootOfATree, fullPools, ephemeralPools, unnamedPools},
		"saving":  {burstPool},
	} {
		t.Run(tree, func(t *testing.T) {
			t.Parallel()
			for _, part := range parts {
				part(t, c)
			}
		})
	}
}

// pool makes a pool of a tree, which may have no operations any more when the test
// ends.
func (c *cluster) pool(t testing.TB, tree, name string, options object) {
	t.Helper()
	edit := makePool(name, options)
	edit["tree"] = tree
	c.ask(t, "PoolService/Edit", edit, &apipb.EditTreeResponse{})
}

// change changes options of a pool.
func (c *cluster) change(t testing.TB, tree, name string, options object) {
	t.Helper()
	c.ask(t, "PoolService/Edit", object{"tree": tree, "edits": []object{{"change": object{"name": name, "options": options}}}}, &apipb.EditTreeResponse{})
}

// pools lists the pools of a tree by name.
func (c *cluster) pools(t testing.TB, tree string) map[string]*apipb.Pool {
	t.Helper()
	var answer apipb.ListPoolsResponse
	c.ask(t, "PoolService/List", object{"tree": tree}, &answer)
	pools := map[string]*apipb.Pool{}
	for _, p := range answer.GetPools() {
		pools[p.GetName()] = p
	}
	return pools
}

// hungry starts an operation that wants every core of a tree for ever: jobs of a time
// each, as many as there are cores and more.
func (c *cluster) hungry(t testing.TB, tree, pool, length string) string {
	t.Helper()
	task := small(2*slots, "run", c.folder(t), length).with("cpu_limit", 1).with("restart_completed_jobs", true)
	return c.start(t, one(task, object{"pool_trees": []string{tree}, "pool": pool}))
}

// abort aborts operations, and waits until they have ended.
func (c *cluster) abort(t testing.TB, operations ...string) {
	t.Helper()
	for _, operation := range operations {
		until(t, "operation "+operation+" is being aborted", func() string {
			err := c.call(t.Context(), c.leader(t), "OperationService/Abort", object{"operation": operation}, &apipb.AbortOperationResponse{})
			// The answer to an earlier call may have been lost.
			if err == nil || strings.Contains(refusalOf(err).Message, "it is abort") {
				return ""
			}
			return err.Error()
		})
	}
	for _, operation := range operations {
		c.ends(t, operation, "aborted")
	}
}

// settles waits until the mean of a figure over some seconds is within a slot of what
// is wanted for each pool. Single looks see jobs come and go.
func (c *cluster) settles(t testing.TB, tree, what string, want map[string]float64) {
	t.Helper()
	const looks = 20
	missing := settle(3*patience, func() string {
		sums := map[string]float64{}
		for range looks {
			pools := c.pools(t, tree)
			for name := range want {
				sums[name] += pools[name].GetUsage().GetCpu()
			}
		}
		for name, cores := range want {
			if mean := sums[name] / looks; math.Abs(mean-cores) > 1 {
				return fmt.Sprintf("%s has %.1f cores, want %.1f", name, mean, cores)
			}
		}
		return ""
	})
	if missing != "" {
		t.Fatalf("%s: %s", what, missing)
	}
}

// weightsOfThree has pools of weight 1, 2 and 5 that want everything.
func weightsOfThree(t *testing.T, c *cluster) {
	var operations []string
	for name, weight := range map[string]float64{"one": 1, "two": 2, "five": 5} {
		c.pool(t, "wide", name, object{"weight": weight})
		operations = append(operations, c.hungry(t, "wide", name, "500ms"))
	}
	c.settles(t, "wide", "1:2:5 of 16 cores", map[string]float64{"one": 2, "two": 4, "five": 10})
	c.abort(t, operations...)
}

// nodeOfTwoTrees has an agent whose tags match two trees, and a filter with which two
// would share nodes: neither is taken, and the trees are named.
func nodeOfTwoTrees(t *testing.T, c *cluster) {
	agent := c.startAgent("n5", "--tags", "wide,narrow")
	agent.says(t, "match the trees")
	wantIn(t, "log of the agent", agent.printed(), []string{"registration rejected", "narrow", "wide"})
	if err := agent.stop(); err != nil {
		t.Error(err)
	}
	if n := c.nodeRecord(t, "n5"); n.GetId() != "" {
		t.Errorf("a node of two trees is there: %v", n)
	}
	refused := c.refused(t, "TreeService/Set", object{"tree": "narrow", "options": object{"nodes_filter": "wide & fast"}})
	wantIn(t, "refusal", refused.Message, []string{`"narrow"`, `"wide"`, "would share nodes"})
}

// mostOfAPool has a pool that may have a quarter of the tree at most, though nobody else
// wants anything, until its limit is lifted.
func mostOfAPool(t *testing.T, c *cluster) {
	c.pool(t, "wide", "quarter", object{"max_share_ratio": 0.25})
	operation := c.hungry(t, "wide", "quarter", "500ms")
	c.settles(t, "wide", "a quarter of 16 cores", map[string]float64{"quarter": slots / 4})
	c.change(t, "wide", "quarter", object{"max_share_ratio": nil})
	c.settles(t, "wide", "all of the cores", map[string]float64{"quarter": slots})
	c.abort(t, operation)
}

// closedPool takes no operations of its own; the pool below it does.
func closedPool(t *testing.T, c *cluster) {
	c.pool(t, "default", "closed", object{"forbid_immediate_operations": true})
	c.pool(t, "default", "below", nil)
	c.ask(t, "PoolService/Edit", object{"tree": "default", "edits": []object{{"change": object{"name": "below", "parent": "closed", "options": object{}}}}}, &apipb.EditTreeResponse{})
	spec := func(pool string) object {
		return one(small(1, "run", c.folder(t), "10ms").with("cpu_limit", 0.1), object{"pool": pool})
	}
	refused := c.refused(t, "OperationService/Start", object{"spec": spec("closed")})
	wantIn(t, "refusal", refused.Message, []string{"closed", "forbid_immediate_operations"})
	c.ends(t, c.start(t, spec("below")), "completed")
}

// rootOfATree takes operations of its own when its tree is told to, and runs them.
func rootOfATree(t *testing.T, c *cluster) {
	set := func(value any) {
		c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"forbid_immediate_operations_in_root": value}}, &apipb.SetTreeResponse{})
	}
	spec := one(small(1, "run", c.folder(t), "10ms").with("cpu_limit", 0.1), object{"pool": "<Root>"})
	refused := c.refused(t, "OperationService/Start", object{"spec": spec})
	wantIn(t, "refusal", refused.Message, []string{"<Root>", "forbid_immediate_operations_in_root"})
	set(false)
	c.ends(t, c.start(t, spec), "completed")
	set(nil)
}

// guarantee has a pool take back what is its own as the jobs of another end.
func guarantee(t *testing.T, c *cluster) {
	c.pool(t, "wide", "own", object{"weight": 1, "strong_guarantee_resources": object{"cpu": 8}})
	c.pool(t, "wide", "greedy", object{"weight": 7})
	greedy := c.hungry(t, "wide", "greedy", "1s")
	c.settles(t, "wide", "all is taken while nobody else wants it", map[string]float64{"greedy": slots})
	own := c.hungry(t, "wide", "own", "500ms")
	// Half is guaranteed. The other half goes by weight on top of it: 1 and 7 parts of
	// the whole, until nothing is left.
	until(t, "the guarantee is in the fair share", func() string {
		if p := c.pools(t, "wide")["own"]; p.GetFairShare() < 0.5 {
			return p.String()
		}
		return ""
	})
	share := c.pools(t, "wide")["own"].GetFairShare()
	c.settles(t, "wide", "the guarantee is given", map[string]float64{"own": slots * share, "greedy": slots * (1 - share)})
	if p := c.get(t, greedy).GetProgress(); p.GetAborted() != 0 {
		t.Errorf("%d jobs were aborted, want none", p.GetAborted())
	}
	c.abort(t, greedy, own)
}

// fifo has the operations of a FIFO pool run one after another: by weight, then by
// start.
func fifo(t *testing.T, c *cluster) {
	c.pool(t, "narrow", "queue", object{"mode": "fifo", "fifo_sort_parameters": []string{"weight", "start_time"}, "resource_limits": object{"user_slots": 0}})
	start := func(weight float64) string {
		task := small(4, "run", c.folder(t), "200ms")
		return c.start(t, one(task, object{"pool_trees": []string{"narrow"}, "pool": "queue", "weight": weight}))
	}
	first, second, heavy := start(1), start(1), start(5)
	for _, operation := range []string{first, second, heavy} {
		c.becomes(t, operation, "waits for resources", func(op *apipb.Operation) bool { return op.GetState() == "running" })
	}
	c.change(t, "narrow", "queue", object{"resource_limits/user_slots": 2})
	order := []string{heavy, first, second}
	// Ids of jobs grow in the order in which they were granted.
	var last string
	for i, operation := range order {
		c.ends(t, operation, "completed")
		var ids []string
		for _, job := range c.jobs(t, operation) {
			ids = append(ids, job.GetId())
		}
		if len(ids) != 4 || slices.Min(ids) <= last {
			t.Errorf("operation %d in the order has jobs %v, the last one of the operation before it is %s", i, ids, last)
		}
		last = slices.Max(ids)
	}
}

// slotsOfAPool has three slots for a pool that wants more, and looks at them all the
// time.
func slotsOfAPool(t *testing.T, c *cluster) {
	c.pool(t, "narrow", "three", object{"resource_limits": object{"user_slots": 3}})
	task := small(60, "run", c.folder(t), "100ms")
	operation := c.start(t, one(task, object{"pool_trees": []string{"narrow"}, "pool": "three"}))
	most := int64(0)
	for ended := false; !ended; {
		op := c.get(t, operation)
		most = max(most, op.GetProgress().GetRunning())
		ended = op.GetState() == "completed"
	}
	if most > 3 {
		t.Errorf("%d jobs ran at once, want 3", most)
	}
	if most := atOnce(c.jobs(t, operation)); most != 3 {
		t.Errorf("by their times %d jobs ran at once, want 3", most)
	}
}

// atOnce returns how many jobs ran at the same time at most, by when they were granted
// and ended.
func atOnce(jobs []*apipb.Job) (most int) {
	type moment struct {
		at    time.Time
		delta int
	}
	var moments []moment
	for _, job := range jobs {
		moments = append(moments, moment{job.GetStartTime().AsTime(), 1}, moment{job.GetFinishTime().AsTime(), -1})
	}
	slices.SortFunc(moments, func(a, b moment) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.delta - b.delta
	})
	running := 0
	for _, m := range moments {
		running += m.delta
		most = max(most, running)
	}
	return most
}
