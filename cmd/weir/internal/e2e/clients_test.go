package e2e

import (
	"encoding/json"
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

// TestErrorsForPrograms has a script of ann's act on errors: it knows what is refused by code and by
// exit code, and what it is told to do about a full pool works.
func TestErrorsForPrograms(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here)
	c.leader(t)
	c.cli(t, "pool", "create", "tiny", "max_operation_count=1")
	l := c.newLaptop(t, "user-ann")
	l.must(t, "weir context set test --addresses "+c.addresses["r1"]+","+c.addresses["r2"]+" --credentials user-ann")
	example, err := filepath.Abs(filepath.Join(repository, "examples", "sleep.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	start := "weir op start --set pool=tiny -o json -f " + example
	for line, want := range map[string]refusalLine{
		"weir op get nothing -o json":                         {Code: "unknown_operation", Exit: 6},
		"weir pool create another -o json":                    {Code: "permission_denied", Exit: 5},
		"weir op list --limit many -o json":                   {Code: "usage", Exit: 2},
		strings.Replace(start, "=tiny", "=''", 1) + " --frob": {Code: "usage", Exit: 2},
	} {
		if got, _ := l.refused(t, line); got.Code != want.Code || got.Exit != want.Exit || got.Retryable || got.Action == "" {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	l.must(t, start)
	full, _ := l.refused(t, start)
	_, command, found := strings.Cut(full.Message, "have the limit raised: ")
	command, who, _ := strings.Cut(command, " (")
	if full.Code != "pool_full" || full.Exit != 5 || !full.Retryable || !found || !strings.Contains(who, "administer") {
		t.Fatalf("%+v", full)
	}
	if got, _ := l.refused(t, command+" -o json"); got.Code != "permission_denied" {
		t.Errorf("ann: %s: %+v", command, got)
	}
	t.Log(command)
	c.cli(t, strings.Fields(command)[1:]...)
	l.must(t, start)
}

// refusalLine is the error of a command, for programs.
type refusalLine struct {
	Code, Message, Action string
	Retryable             bool
	Exit                  int `json:"exit_code"`
}

// refused runs a line that has to fail, and returns the last line that it said.
func (l laptop) refused(t *testing.T, line string) (f refusalLine, printed string) {
	t.Helper()
	printed, said, code := l.typed(t, line)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &f); err != nil || code != f.Exit || code == 0 {
		t.Errorf("%s: exit code %d, %v\n%s", line, code, err, said)
	}
	return f, printed
}

// must runs a line that has to work.
func (l laptop) must(t *testing.T, line string) {
	t.Helper()
	if printed, said, code := l.typed(t, line); code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", line, code, printed, said)
	}
}

// TestPageOfAPI types the calls of docs/api.md with curl, which shows ann's certificate and checks
// that of the replica.
func TestPageOfAPI(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here)
	c.leader(t)
	l := c.newLaptop(t, "user-ann")
	want := []string{`"user":"ann"`, `"operation_id":"`, `"user":"ann"`, "Weir-Code: unknown_operation"}
	for line := range strings.Lines(block(t, "docs/api.md", "With curl")) {
		line = strings.ReplaceAll(strings.TrimSpace(line), "host1:7701", c.addresses["r1"])
		if line == "" {
			continue
		}
		printed, said, code := l.typed(t, "cd user-ann && "+line)
		t.Logf("$ %s\n%s%s", line, printed, said)
		if code != 0 || len(want) == 0 || !strings.Contains(strings.ToLower(printed), strings.ToLower(want[0])) {
			t.Fatalf("%s: exit code %d, want %v\n%s%s", line, code, want, printed, said)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("no line of the page printed %q", want)
	}
}
