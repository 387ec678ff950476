package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// drain empties the one node of the cluster, by the command line: what runs there
// goes on to its end, also under another leader, and nothing else starts until an
// operator allows it.
func drain(t *testing.T, c *cluster) {
	dir, node := c.folder(t), c.node("n1")
	release := filepath.Join(dir, "release")
	operator := func(arguments ...string) (printed string, code int) { return c.verb(t, arguments...) }
	running := c.start(t, one(small(2, "run", dir, release)))
	before := c.runs(t, running, 2)

	misspelt := strings.TrimSuffix(node, "1") + "2"
	printed, code := operator("node", "drain", misspelt)
	if code == 0 {
		t.Errorf("drain of a node that nobody knows: exit code 0")
	}
	wantIn(t, "drain of a node that nobody knows", printed, []string{"no node", "did you mean " + node})
	for range 2 {
		if printed, code = operator("node", "drain", node, "--reason", "new kernel"); code != 0 {
			t.Fatalf("drain: exit code %d\n%s", code, printed)
		}
	}
	wantIn(t, "drain", printed, []string{"2 jobs left", "by admin", "new kernel"})
	for _, short := range []string{"1s", "5s", "30s"} {
		if printed, code = operator("node", "drain", node, "--wait", "--timeout", short); code == 0 {
			t.Error("the wait for a node with jobs has ended well")
		}
		// On a busy machine the time may be over before the wait begins.
		if strings.Contains(printed, "stays drained") {
			break
		}
	}
	wantIn(t, "a wait that is too short", printed, []string{"stays drained"})

	old := c.leader(t)
	until(t, "leadership moves from "+old, func() string {
		// A replica that waits for a processor does not take it in time.
		if printed, code := operator("cluster", "transfer"); code != 0 {
			return printed
		}
		return ""
	})
	waiting := c.start(t, one(small(1, "run", c.folder(t), "10ms")))
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if printed, code = operator("node", "drain", node, "--wait"); code != 0 {
		t.Fatalf("drain --wait: exit code %d\n%s", code, printed)
	}
	wantIn(t, "drain --wait", printed, []string{"empty", "new kernel"})
	c.ends(t, running, "completed")
	for _, job := range c.jobs(t, running, "completed") {
		if job.GetId() != before[0].GetId() && job.GetId() != before[1].GetId() {
			t.Errorf("job %v was disturbed", job)
		}
	}
	if jobs := c.jobs(t, waiting); len(jobs) != 0 {
		t.Errorf("on a drained node began %v", jobs)
	}
	for _, verb := range [][]string{{"status"}, {"node", "list"}, {"node", "get", node}} {
		printed, _ = operator(verb...)
		wantIn(t, strings.Join(verb, " "), printed, []string{"drain"})
	}
	if printed, code = operator("node", "undrain", node); code != 0 {
		t.Fatalf("undrain: exit code %d\n%s", code, printed)
	}
	c.ends(t, waiting, "completed")
}
