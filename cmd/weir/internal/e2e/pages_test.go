package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is where the pages and the examples are.
const repository = "../../../.."

// block returns the first lines of a page that are to be typed, below a heading.
func block(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, page))
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	_, lines, opened := strings.Cut(below, "\n```\n")
	lines, _, closed := strings.Cut(lines, "\n```\n")
	if !found || !opened || !closed {
		t.Fatalf("%s has no lines below %q", page, heading)
	}
	return lines
}

// typed runs a line as whoever is in a folder with the settings of a cluster does.
func (c *cluster) typed(t *testing.T, folder, line string) (printed string, err error) {
	t.Helper()
	return c.typedAs(t, "operator-admin", folder, line)
}

// typedAs is like typed, with the certificate in a folder of the cluster's certificates.
func (c *cluster) typedAs(t *testing.T, who, folder, line string) (printed string, err error) {
	t.Helper()
	var addresses []string
	for _, name := range replicaNames {
		addresses = append(addresses, c.addresses[name])
	}
	// Each of the commands of a line counts.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line, " ; ", " && "))
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "WEIR_ADDRESSES="+strings.Join(addresses, ","), "WEIR_CREDENTIALS="+c.certs(who))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPageOfPools types what docs/pools.md says about changing pools, line by line on a cluster
// that is fresh: each command does what it says. Then it starts what can be seen not to run, and
// is told.
func TestPageOfPools(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	said := map[string]string{}
	for line := range strings.Lines(block(t, "docs/pools.md", "Changing")) {
		printed, err := c.typed(t, repository, line)
		t.Logf("$ %s%s", line, printed)
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, printed)
		}
		said[strings.Join(strings.Fields(line)[:3], " ")] += printed
	}
	for line, want := range map[string]string{
		"weir pool set":  "changed pool ads: weight back to its default, strong_guarantee_resources back to its default",
		"weir op update": "changed operation *nightly: pool=default, weight back to its default",
	} {
		if !strings.Contains(said[line], want) {
			t.Errorf("%s: printed %q, want %q", line, said[line], want)
		}
	}
	if pools := c.cli(t, "pool", "list"); strings.Contains(pools, "ads") || strings.Contains(pools, "advertising") || !strings.Contains(pools, "batch") {
		t.Errorf("in the end the pools are\n%s", pools)
	}
	printed, err := c.typed(t, repository, "weir op start -f examples/hello.yaml --set tasks.hello.cpu_limit=1000 --set tasks.hello.user=no-such-user")
	if err != nil || !strings.Contains(printed, "no node has more than 16 cores, but a job needs 1000") || !strings.Contains(printed, `user "no-such-user" is not known on the replica`) {
		t.Errorf("what cannot run is started: %v\n%s", err, printed)
	}
	id := printed[strings.LastIndexByte(strings.TrimSpace(printed), '\n')+1:]
	for _, operation := range []string{"*nightly", strings.TrimSpace(id)} {
		c.cli(t, "op", "abort", operation)
	}
}
