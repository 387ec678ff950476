package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// differentlyInTwoTrees has an operation with a pool and a limit of its own in each of
// two trees.
func differentlyInTwoTrees(t *testing.T, c *cluster) {
	c.pool(t, "narrow", "left", nil)
	c.pool(t, "default", "right", nil)
	task := small(40, "run", c.folder(t), "300ms").with("restart_completed_jobs", true)
	operation := c.start(t, one(task, object{
		"pool_trees": []string{"narrow", "default"},
		"scheduling_options_per_pool_tree": object{
			"narrow":  object{"pool": "left", "resource_limits": object{"user_slots": 2}},
			"default": object{"pool": "right", "resource_limits": object{"user_slots": 5}},
		},
	}))
	want := map[string]int{c.node("n2"): 2, c.node("n4"): 5}
	met := 0
	until(t, "each tree gives its own limit", func() string {
		running := map[string]int{}
		for _, job := range c.jobs(t, operation, "running", "waiting") {
			running[job.GetNode()]++
		}
		full := true
		for node, count := range running {
			if count > want[node] {
				t.Fatalf("%d jobs run at %s, want at most %d", count, node, want[node])
			}
		}
		for node, count := range want {
			full = full && running[node] == count
		}
		if full {
			met++
		}
		if met < 10 {
			return fmt.Sprint(running)
		}
		return ""
	})
	// It acts on a running operation too, in the one tree.
	c.ask(t, "OperationService/Update", object{"operation": operation, "changes": []object{{"tree": "default", "options": object{"resource_limits/user_slots": 1}}}}, &apipb.UpdateOperationResponse{})
	c.settlesAt(t, operation, map[string]int{c.node("n2"): 2, c.node("n4"): 1})
	c.abort(t, operation)
}

// settlesAt waits until so many jobs of an operation run at each node.
func (c *cluster) settlesAt(t testing.TB, operation string, want map[string]int) {
	t.Helper()
	until(t, "jobs by node", func() string {
		running := map[string]int{}
		for _, job := range c.jobs(t, operation, "running", "waiting") {
			running[job.GetNode()]++
		}
		if fmt.Sprint(running) == fmt.Sprint(want) {
			return ""
		}
		return fmt.Sprintf("%v, want %v", running, want)
	})
}

// fullPools has the ninth operation of a pool wait, and the 51st refused.
func fullPools(t *testing.T, c *cluster) {
	c.pool(t, "default", "eight", nil)
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	spec := func() object {
		return one(small(1, "run", c.folder(t), release).with("cpu_limit", 0.01), object{"pool": "eight"})
	}
	var operations []string
	for range 8 {
		operations = append(operations, c.start(t, spec()))
	}
	for _, operation := range operations {
		c.runs(t, operation, 1)
	}
	ninth := c.start(t, spec())
	op := c.becomes(t, ninth, "waits", func(op *apipb.Operation) bool { return op.GetState() == "pending" && op.GetPendingReason() != "" })
	wantIn(t, "pending reason", op.GetPendingReason(), []string{"eight", "max_running_operation_count", "8"})
	operations = append(operations, ninth)
	for len(operations) < 50 {
		operations = append(operations, c.start(t, spec()))
	}
	refused := c.refused(t, "OperationService/Start", object{"spec": spec()})
	if refused.Status < 400 || refused.Status > 499 {
		t.Fatalf("the 51st operation: %v, want it refused", refused)
	}
	wantIn(t, "refusal", refused.Message, []string{"eight", "max_operation_count", "50"})
	if n := c.pools(t, "default")["eight"].GetOperationCount(); n != 50 {
		t.Errorf("%d operations are in the pool, want 50", n)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, operation := range operations {
		c.ends(t, operation, "completed")
	}
}

// ephemeralPools come with an operation and go with it: below a pool, one for each
// user, and where the pool that an operation names is not there.
func ephemeralPools(t *testing.T, c *cluster) {
	c.pool(t, "default", "team", object{"create_ephemeral_subpools": true, "ephemeral_subpool_config": object{"max_running_operation_count": 1}})
	release := filepath.Join(c.folder(t), "release")
	start := func(pool string) string {
		return c.start(t, one(small(1, "run", c.folder(t), release).with("cpu_limit", 0.1), object{"pool": pool}))
	}
	first, free := start("team"), start("nobodys")
	c.runs(t, first, 1)
	c.runs(t, free, 1)
	second := start("team")
	op := c.becomes(t, second, "waits in the subpool", func(op *apipb.Operation) bool { return op.GetState() == "pending" && op.GetPendingReason() != "" })
	wantIn(t, "pending reason", op.GetPendingReason(), []string{"team$admin", "1"})
	pools := c.pools(t, "default")
	for name, parent := range map[string]string{"team$admin": "team", "nobodys": "<Root>"} {
		if p := pools[name]; p.GetEphemeralUser() != "admin" || p.GetParent() != parent && parent+p.GetParent() != "<Root>" {
			t.Errorf("pool %s is %v, want one for admin below %s", name, p, parent)
		}
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{first, second, free} {
		c.ends(t, operation, "completed")
	}
	until(t, "the pools are gone", func() string {
		for name := range c.pools(t, "default") {
			if strings.Contains(name, "$") || name == "nobodys" {
				return name + " is there"
			}
		}
		return ""
	})
}

// unnamedPools has operations that name no pool run in that of their user, below the
// default parent of the tree.
func unnamedPools(t *testing.T, c *cluster) {
	c.pool(t, "default", "crew", nil)
	setParent := func(to any) {
		c.ask(t, "PoolService/Edit", object{"tree": "default", "edits": []object{{"tree_options": object{"default_parent_pool": to}}}}, &apipb.EditTreeResponse{})
	}
	release := filepath.Join(c.folder(t), "release")
	start := func() string {
		return c.start(t, one(small(1, "run", c.folder(t), release).with("cpu_limit", 0.1)))
	}
	before := start()
	setParent("crew")
	first, second := start(), start()
	for operation, want := range map[string]string{before: "default", first: "admin", second: "admin"} {
		c.runs(t, operation, 1)
		if got := c.get(t, operation).GetPool(); got != want {
			t.Errorf("operation %s is in pool %s, want %s", operation, got, want)
		}
	}
	if p := c.pools(t, "default")["admin"]; p.GetEphemeralUser() != "admin" || p.GetParent() != "crew" || p.GetOperationCount() != 2 {
		t.Errorf("the pool of admin is %v, want one with two operations below crew", p)
	}
	setParent(nil)
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{before, first, second} {
		c.ends(t, operation, "completed")
	}
	until(t, "the pool is gone", func() string {
		if p := c.pools(t, "default")["admin"]; p != nil {
			return fmt.Sprintf("%v is there", p)
		}
		return ""
	})
}
