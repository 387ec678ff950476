package e2e

import (
	"strings"
	"testing"
)

// TestShortIDs: what lists show of an id is enough to name an operation or a job in each verb, and whatever lists of
// others show has the operation's title and user beside it.
func TestShortIDs(t *testing.T) {
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	operation := c.start(t, one(object{"job_count": 1, "command": []string{"sleep", "600"}, "cpu_limit": 0.1, "memory_limit": "64MiB"}, object{"title": "a long sleep"}))
	runs := c.runs(t, operation, 1)[0]
	job, node := runs.GetId(), runs.GetNode()
	ended := c.start(t, one(object{"job_count": 1, "command": []string{"true"}, "cpu_limit": 0.1, "memory_limit": "64MiB"}))
	c.cli(t, "op", "wait", ended)

	list := strings.Split(c.cli(t, "op", "list"), "\n")
	if len(list) < 3 || !strings.HasPrefix(list[1], operation[28:]+" ") || !strings.HasPrefix(list[2], ended[28:]+" ") || !strings.HasSuffix(list[1], "a long sleep") {
		t.Errorf("what is in progress does not come first:\n%s", strings.Join(list, "\n"))
	}
	if wide := c.cli(t, "op", "list", "-o", "wide"); !strings.Contains(wide, operation+" ") || !strings.Contains(wide, ended+" ") {
		t.Errorf("no whole ids:\n%s", wide)
	}
	if listed := c.cli(t, "job", "list", operation[28:]); !strings.Contains(listed, "\n"+job[28:]+" ") {
		t.Errorf("no job %s:\n%s", job[28:], listed)
	}
	called := `"a long sleep" of `
	for _, verb := range [][]string{{"job", "get", job[28:]}, {"explain", "op", operation[28:]}, {"explain", "job", job[28:]}, {"events", "--operation", operation[28:]}} {
		if printed := c.cli(t, verb...); !strings.Contains(printed, operation[28:]+" "+called) {
			t.Errorf("weir %s does not say what the operation is called:\n%s", strings.Join(verb, " "), printed)
		}
	}
	if printed := c.cli(t, "node", "get", node); !strings.Contains(printed, job[28:]+"  "+operation[28:]) || !strings.Contains(printed, "a long sleep") {
		t.Errorf("the jobs of a node have no names:\n%s", printed)
	}
	if printed, code := c.verb(t, "op", "get", operation[:6]); code != 5 || !strings.Contains(printed, operation) || !strings.Contains(printed, ended) {
		t.Errorf("exit code %d, and of several operations:\n%s", code, printed)
	}
	c.cli(t, "job", "abort", job[28:])
	c.cli(t, "op", "abort", operation[28:])
	if printed, code := c.verb(t, "op", "wait", operation[28:]); code != 4 {
		t.Errorf("exit code %d of an aborted operation: %s", code, printed)
	}
}
