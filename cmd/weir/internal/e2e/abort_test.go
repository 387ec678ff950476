package e2e

import (
	"strings"
	"testing"

	"weir/messages/apipb"
)

// TestAbortOfMany aborts the operations that flags select, and no other: after an agreement, which needs a terminal, or
// with --yes.
func TestAbortOfMany(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here)
	c.ready(t, 0)
	started := map[string]string{}
	for _, title := range []string{"run 7 a", "run 7 b", "run 7 c", "another"} {
		started[title] = c.start(t, one(small(1, "run", c.folder(t), "1h")).with("title", title))
	}
	aborted := func() (titles []string) {
		for title, operation := range started {
			if c.get(t, operation).GetState() == "aborted" {
				titles = append(titles, title)
			}
		}
		return titles
	}

	printed, code := c.verb(t, "op", "abort", "--title", "run 7")
	for _, word := range []string{"run 7 a", "run 7 b", "run 7 c", "nothing aborted: no terminal to confirm on: give --yes"} {
		if !strings.Contains(printed, word) {
			t.Errorf("without a terminal it does not say %q:\n%s", word, printed)
		}
	}
	if code != 2 || strings.Contains(printed, "another") || len(aborted()) > 0 {
		t.Errorf("without a terminal: exit code %d, aborted are %v\n%s", code, aborted(), printed)
	}

	if printed := c.cli(t, "op", "abort", "--title", "run 7", "--user", "admin", "--yes", "--reason", "a mistake"); !strings.Contains(printed, "3 of 3 operations aborted") {
		t.Errorf("with --yes:\n%s", printed)
	}
	if got := aborted(); len(got) != 3 || c.get(t, started["another"]).GetState() == "aborted" {
		t.Errorf("aborted are %v", got)
	}
	if reason := c.get(t, started["run 7 b"]).GetResult().GetMessage(); !strings.Contains(reason, "a mistake") {
		t.Errorf("the reason is %q", reason)
	}
	if printed := c.cli(t, "op", "abort", "--title", "run 7", "--yes"); !strings.Contains(printed, "no operation in progress is selected") {
		t.Errorf("once more:\n%s", printed)
	}
	var left apipb.ListOperationsResponse
	c.ask(t, "OperationService/List", object{"in_progress": true}, &left)
	if len(left.GetOperations()) != 1 || left.GetOperations()[0].GetTitle() != "another" {
		t.Errorf("left are %v", left.GetOperations())
	}
}
