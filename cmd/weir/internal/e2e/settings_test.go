package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/messages/apipb"
	"weir/messages/eventpb"
)

// TestSettingsOfAnOperation: an operation starves after the timeout in its spec, unless
// its pool bounds that, which it is told; and however often the leader changes, it has been
// below its share since it was.
func TestSettingsOfAnOperation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	c.cli(t, "tree", "set", "default", "fair_share_starvation_timeout=1h", "fair_share_aggressive_starvation_timeout=1h", "preemptive_scheduling_backoff=500ms")
	c.cli(t, "pool", "create", "greedy")
	c.cli(t, "pool", "create", "hasty")
	c.cli(t, "pool", "create", "strict", "fair_share_starvation_timeout_lower_bound=1h")
	if printed, code := c.verb(t, "pool", "set", "hasty", "preemptive_scheduling_backoff=1s"); code == 0 || !strings.Contains(printed, "set it for the whole tree") {
		t.Errorf("a backoff of a pool: exit code %d\n%s", code, printed)
	}
	greedy := c.hungry(t, "default", "greedy", "1h")
	c.runs(t, greedy, slots)
	victims := c.follow(t)

	hasty := c.start(t, one(small(2, "run", c.folder(t), "1h").with("cpu_limit", 1), object{"pool": "hasty", "fair_share_starvation_timeout": "2s"}))
	c.runs(t, hasty, 2)
	wantPatience(t, victims, hasty, 2*time.Second)

	strict := boundedStart(t, c)
	overLeaders(t, c, strict)
	if got := c.attributeOf(t, strict, "starvation_status"); got != "non_starving" {
		t.Errorf("within an hour it is %v", got)
	}
	c.cli(t, "pool", "set", "strict", "--unset", "fair_share_starvation_timeout_lower_bound")
	c.runs(t, strict, 2)
	wantPatience(t, victims, strict, 3*time.Second)
}

// attributeOf returns an attribute of an operation in the default tree; nil: it has none of
// this name now.
func (c *cluster) attributeOf(t *testing.T, operation, name string) (value any) {
	t.Helper()
	request := object{"path": "scheduler/pool_trees/default/operations/" + operation + "/" + name}
	until(t, "attribute "+name, func() string {
		var answer apipb.GetAttributeResponse
		err := c.call(t.Context(), c.leader(t), "AttributeService/Get", request, &answer)
		if err != nil && refusalOf(err).Status != http.StatusNotFound {
			return err.Error()
		}
		value = answer.GetValue().AsInterface()
		return ""
	})
	return value
}

// wantPatience compares when jobs were told to go for an operation with since when it had
// been below its share, as the records have it.
func wantPatience(t *testing.T, f *follower, beneficiary string, timeout time.Duration) {
	t.Helper()
	var seen []*eventpb.Event
	until(t, "jobs are told to have gone for "+beneficiary, func() string {
		seen = nil
		for _, e := range f.kind(t, "job_preempted") {
			if e.GetPreemptedFor().GetOperation() == beneficiary {
				seen = append(seen, e)
			}
		}
		return fewer(len(seen), 1)
	})
	_, text, _ := strings.Cut(seen[0].GetMessage(), "below its fair share since ")
	text, _, _ = strings.Cut(text, ";")
	since, err := time.Parse(time.RFC3339, text)
	// The message has whole seconds.
	waited := seen[0].GetTime().AsTime().Sub(since)
	t.Logf("a job had to go after %v, with a timeout of %v", waited, timeout)
	if err != nil || waited <= timeout || waited > time.Hour {
		t.Errorf("%q, at %v: after %v (%v), want more than %v", seen[0].GetMessage(), seen[0].GetTime().AsTime(), waited, err, timeout)
	}
}

// boundedStart starts an operation that sets less than its pool allows, and sees that this
// is said.
func boundedStart(t *testing.T, c *cluster) (operation string) {
	t.Helper()
	spec, err := json.Marshal(one(small(2, "run", c.folder(t), "1h").with("cpu_limit", 1), object{"pool": "strict", "fair_share_starvation_timeout": "2s"}))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.folder(t), "spec.json")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	said := func(printed, value string) {
		t.Helper()
		if warning := `fair_share_starvation_timeout ` + value + `: pool "strict" allows no less than 1h; 1h applies`; !strings.Contains(printed, warning) {
			t.Errorf("%q is not said in\n%s", warning, printed)
		}
	}
	printed := c.cli(t, "op", "start", "-f", file)
	said(printed, "2s")
	lines := strings.Fields(printed)
	operation = lines[len(lines)-1]
	said(c.cli(t, "op", "update", operation, "fair_share_starvation_timeout=3s"), "3s")
	said(c.cli(t, "op", "get", operation), "3s")
	if got := c.attributeOf(t, operation, "effective_fair_share_starvation_timeout"); got != "1h" {
		t.Errorf("%v holds, want 1h", got)
	}
	return operation
}

// overLeaders has leadership handed over, by which clocks are kept, and a leader killed
// after that: each finds since when the operation is below its share.
func overLeaders(t *testing.T, c *cluster, operation string) {
	t.Helper()
	const name = "below_fair_share_since"
	var since any
	until(t, "the operation is below its share", func() string {
		if since = c.attributeOf(t, operation, name); since == nil {
			return "it is not"
		}
		return ""
	})
	goesOn := func(what, before string) {
		t.Helper()
		until(t, what+": the operation is below its share since then", func() string {
			if c.leader(t) == before {
				return "the same leader"
			}
			if got := c.attributeOf(t, operation, name); got != since {
				return fmt.Sprintf("since %v, and not %v", got, since)
			}
			return ""
		})
	}
	first := c.leader(t)
	second := replicaNames[0]
	if second == first {
		second = replicaNames[1]
	}
	handOver(t, c, second)
	goesOn("after a transfer", first)
	c.process(second).kill()
	goesOn("after a kill of the leader", second)
	c.startReplica(second)
}
