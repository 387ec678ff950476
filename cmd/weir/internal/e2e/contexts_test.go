package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// laptop is the machine of somebody who has nothing but a certificate and the program.
type laptop struct {
	home string
}

// newLaptop returns a machine with the credentials of a user in the home folder.
func (c *cluster) newLaptop(t *testing.T, who string) laptop {
	t.Helper()
	l := laptop{t.TempDir()}
	if err := os.CopyFS(filepath.Join(l.home, who), os.DirFS(c.certs(who))); err != nil {
		t.Fatal(err)
	}
	// Copies of files are not private, and a key has to be.
	if err := os.Chmod(filepath.Join(l.home, who, "tls.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// typed runs a line in the home folder, and returns what it printed on both.
func (l laptop) typed(t *testing.T, line string, env ...string) (printed, said string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = l.home
	cmd.Env = append([]string{"HOME=" + l.home, "PATH=" + programs + ":" + os.Getenv("PATH")}, env...)
	var out, failed strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out.String(), failed.String(), cmd.ProcessState.ExitCode()
}

// TestPageOfClients types what docs/clients.md says on another machine, which has only the
// folder of a certificate: from there to the first list of operations.
func TestPageOfClients(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here)
	c.leader(t)
	l := c.newLaptop(t, "user-ann")
	var addresses []string
	for _, name := range replicaNames {
		addresses = append(addresses, c.addresses[name])
	}
	there := strings.NewReplacer("host1:7701,host2:7701,host3:7701", strings.Join(addresses, ","))
	said := map[string]string{}
	for line := range strings.Lines(block(t, "docs/clients.md", "The first list")) {
		line = there.Replace(strings.TrimSpace(line))
		printed, failed, code := l.typed(t, line)
		t.Logf("$ %s\n%s%s", line, printed, failed)
		if code != 0 {
			t.Errorf("%s: exit code %d\n%s", line, code, failed)
		}
		said[strings.Fields(line)[1]] += printed + failed
	}
	if !strings.Contains(said["whoami"], "ann") || !strings.Contains(said["op"], "no operations yet") {
		t.Errorf("said %q", said)
	}
	if printed, failed, code := l.typed(t, "weir context show -o json", "WEIR_CONTEXT="); code != 0 || !strings.Contains(printed, `"user": "ann"`) {
		t.Errorf("exit code %d: %s%s", code, printed, failed)
	}
	// All replicas are gone: who was asked, and where that is from.
	for _, name := range replicaNames {
		c.process(name).kill()
	}
	if _, failed, code := l.typed(t, "weir op list --timeout 2s"); code != 3 || !strings.Contains(failed, `settings from context "prod" of `+l.home+"/.config/weir/config.yaml") {
		t.Errorf("exit code %d: %s", code, failed)
	}
}
