package e2e

import (
	"strings"
	"testing"
)

// TestNodeGrants (T6) gives grants while two agents run: a grant that would shut one out is refused and says
// so; with --force its jobs run elsewhere, and its log, the status and an event say why. An agent
// may claim no tag that it is not given. Without any grant everything holds again.
func TestNodeGrants(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1", "n2", "n3")
	c.startAgent("n1", "--tags", "ssd")
	second := c.startAgent("n2")
	c.ready(t, 2)
	n1, n2 := c.node("n1"), c.node("n2")
	operation := c.start(t, one(small(8, "run", c.folder(t), "1h")))
	c.runs(t, operation, 8)
	if text := c.health(t); !strings.Contains(text, "nodes register with any tags and resources") {
		t.Errorf("the status without grants is\n%s", text)
	}
	printed, code := c.verb(t, "node", "allow", n1, "--tags", "ssd")
	if code == 0 || !strings.Contains(printed, "1 registered nodes would be refused: "+n2+": no grant of nodes matches its name") {
		t.Errorf("exit code %d\n%s", code, printed)
	}
	if text := c.cli(t, "node", "grants"); !strings.Contains(text, "no grant") {
		t.Errorf("the grants are\n%s", text)
	}

	c.cli(t, "node", "allow", n1, "--tags", "ssd", "--max-cpu", "16", "--force")
	second.says(t, "no grant of nodes matches its name")
	c.nodeIs(t, "n2", "offline")
	until(t, "all jobs run on the other node", func() string {
		jobs := c.jobs(t, operation, "running")
		for _, job := range jobs {
			if job.GetNode() != n1 {
				return "one runs on " + job.GetNode()
			}
		}
		if len(jobs) != 8 {
			return "not all run"
		}
		return ""
	})
	if text := c.health(t); !strings.Contains(text, n2) || !strings.Contains(text, "claim what no grant gives them") {
		t.Errorf("the status is\n%s", text)
	}
	if text := c.cli(t, "events", "--since", "1h"); !strings.Contains(text, "node_refused") && !strings.Contains(text, "no grant of nodes matches its name") {
		t.Errorf("the events are\n%s", text)
	}

	// A new leader refuses too; what is allowed comes in.
	c.process(c.leader(t)).kill()
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	c.cli(t, "node", "allow", n2, "--tags", "hdd")
	second = c.startAgent("n2", "--tags", "gpu")
	second.says(t, `may not claim the tag \"gpu\"`)
	c.nodeIs(t, "n2", "offline")
	c.cli(t, "node", "allow", n2, "--tags", "gpu")
	c.nodeIs(t, "n2", "online")

	// One that never registered is told of, with what it claims, what it is given, and what allows it.
	c.startAgent("n3", "--tags", "fast")
	n3 := c.node("n3")
	until(t, "an agent that never registered is told of", func() string {
		list, status := c.cli(t, "node", "list"), c.health(t)
		for _, word := range []string{n3, "it claims tags fast", "no grant", "weir node allow '" + n3 + "'"} {
			if !strings.Contains(list, word) {
				return list
			}
		}
		if !strings.Contains(status, n3) || !strings.Contains(status, "claim what no grant gives them") {
			return status
		}
		return ""
	})
	c.cli(t, "node", "allow", n3)
	until(t, "the list says what grants give it", func() string {
		if list := c.cli(t, "node", "list"); !strings.Contains(list, "grants give it: without tags, any resources") || !strings.Contains(list, `it may not claim the tag "fast"`) {
			return list
		}
		return ""
	})
	c.cli(t, "node", "allow", n3, "--tags", "fast")
	c.nodeIs(t, "n3", "online")
	if list := c.cli(t, "node", "list"); strings.Contains(list, "refused agents") {
		t.Errorf("nothing is refused any more:\n%s", list)
	}

	c.cli(t, "node", "disallow", n3, "--force")
	c.cli(t, "node", "disallow", n1, "--force")
	c.nodeIs(t, "n1", "offline")
	if printed, code := c.verb(t, "node", "disallow", n2); code != 0 || !strings.Contains(printed, "each node may register with any tags and resources") {
		t.Errorf("exit code %d\n%s", code, printed)
	}
	c.nodeIs(t, "n1", "online")
}
