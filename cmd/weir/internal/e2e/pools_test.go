package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// TestPoolVerbs drives the verbs about pools, as an operator does.
func TestPoolVerbs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1", "n2")
	c.startAgent("n1", "--tags", "ssd")
	c.startAgent("n2")
	c.ready(t, 2)
	verb := func(t *testing.T, arguments ...string) string {
		t.Helper()
		return c.cli(t, arguments...)
	}
	file := filepath.Join(c.folder(t), "pools.yaml")
	text := "tree: default\noptions: {node_reconnection_timeout: 1ms}\npools:\n  ads: {weight: 2}\n  batch: {pools: {night: {mode: fifo}}}\n  default: {}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dry := verb(t, "pool", "apply", "-f", file, "--dry-run")
	if !strings.Contains(dry, "+ pool night below batch") || strings.Contains(verb(t, "pool", "list"), "ads") {
		t.Fatalf("a dry run: %s", dry)
	}
	verb(t, "pool", "apply", "-f", file, "--yes")
	if again := verb(t, "pool", "apply", "-f", file); !strings.Contains(again, "nothing to do") {
		t.Fatalf("the same file again: %s", again)
	}
	if err := os.WriteFile(file, []byte(verb(t, "pool", "export")), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := verb(t, "pool", "apply", "-f", file, "--prune"); !strings.Contains(again, "nothing to do") {
		t.Fatalf("what was exported: %s", again)
	}
	for _, pool := range []string{"ads", "night"} {
		// The first takes all slots; what the second wants counts as much.
		c.becomes(t, c.start(t, one(small(200, "run", c.folder(t), "10m"), object{"pool": pool, "alias": "*of-" + pool})), "running", func(op *apipb.Operation) bool {
			return op.GetState() == "running"
		})
	}
	whatIf(t, verb, "ads/weight=5")
	if gone := verb(t, "whatif", "--remove-operation", "*of-ads", "--set", "*of-night/weight=2"); !strings.Contains(gone, "gone") {
		t.Errorf("weir whatif without an operation: %s", gone)
	}
	whatIf(t, verb, "batch/strong_guarantee_resources.cpu=20")
	whatIf(t, verb, "ads/max_share_ratio=0.125")
	whatIf(t, verb, "night/scheduling_tag_filter=ssd")
	whatIf(t, verb, "night/resource_limits.user_slots=3")
	starves(t, c, verb)
}

// starves has a pool with a timeout of its own for an operation whose jobs need the node
// whole on which the jobs of night run, while those are let stay.
func starves(t *testing.T, c *cluster, verb func(*testing.T, ...string) string) {
	t.Helper()
	verb(t, "tree", "set", "default", "min_run_time=1h")
	verb(t, "pool", "create", "vain", "fair_share_starvation_timeout=1s", "scheduling_tag_filter=ssd")
	operation := c.start(t, one(small(2, "run", c.folder(t), "1s").with("cpu_limit", 16), object{"pool": "vain"}))
	for path, want := range map[string]string{
		"pools/vain/effective_fair_share_starvation_timeout":    "1s",
		"pools/default/effective_fair_share_starvation_timeout": "30s",
		"pools/vain/starvation_status":                          "starving",
		"operations/" + operation + "/starvation_status":        "starving",
	} {
		until(t, path, func() string {
			if got := strings.TrimSpace(verb(t, "get", "scheduler/pool_trees/default/"+path)); strings.Trim(got, `"`) != want {
				return got + ", want " + want
			}
			return ""
		})
	}
}

// whatIf compares what weir whatif says of a change of a pool with the shares that
// the cluster has when it has been made.
func whatIf(t *testing.T, verb func(*testing.T, ...string) string, change string) {
	t.Helper()
	type share struct {
		Ratio float64 `json:"fair_share_ratio"`
	}
	var answer struct {
		Elements []struct {
			Kind, Name    string
			Before, After *share
		}
	}
	if err := json.Unmarshal([]byte(verb(t, "whatif", "--set", change, "-o", "json")), &answer); err != nil {
		t.Fatal(err)
	}
	pool, option, _ := strings.Cut(change, "/")
	verb(t, "pool", "set", pool, option)
	changed := false
	for _, e := range answer.Elements {
		path := fmt.Sprintf("scheduler/pool_trees/default/%ss/%s/fair_share_ratio", e.Kind, e.Name)
		changed = changed || e.Before.Ratio != e.After.Ratio
		until(t, "the fair share of "+e.Name, func() string {
			got, err := strconv.ParseFloat(strings.TrimSpace(verb(t, "get", path)), 64)
			if err != nil || math.Abs(got-e.After.Ratio) > 1e-9 {
				return fmt.Sprintf("%v (%v), weir whatif said %v", got, err, e.After.Ratio)
			}
			t.Logf("%s: %s %s: was %v, whatif says %v, is %v", change, e.Kind, e.Name, e.Before.Ratio, e.After.Ratio, got)
			return ""
		})
	}
	if !changed {
		t.Errorf("%s changes nothing: %+v", change, answer.Elements)
	}
}
