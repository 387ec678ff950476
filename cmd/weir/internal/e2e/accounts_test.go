package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// startAs starts an operation as somebody, and returns its id, or why it is refused.
func (c *cluster) startAs(t *testing.T, who, replica string, spec object) (operation string, refused *refusal) {
	t.Helper()
	body, err := json.Marshal(object{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	status, data := c.answered(t, who, replica, "OperationService/Start", string(body))
	refused = &refusal{Status: status}
	if err := json.Unmarshal(data, refused); err != nil {
		t.Fatalf("start: %s: %v", data, err)
	}
	if status != http.StatusOK {
		return "", refused
	}
	var started struct {
		ID string `json:"operation_id"`
	}
	if err := json.Unmarshal(data, &started); err != nil || started.ID == "" {
		t.Fatalf("start: %s: %v", data, err)
	}
	return started.ID, nil
}

// TestAccounts (T2) has ann ask for accounts of the machines: without a grant every replica refuses, with
// one her jobs are that account. When it is taken away, jobs that run go on, and others wait until it is given again.
func TestAccounts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can have jobs that are others")
	}
	c := newCluster(t, here, "n1")
	// Who is another has to get at its workspace.
	if err := os.Chmod(filepath.Dir(c.dir), 0o711); err != nil {
		t.Fatal(err)
	}
	c.startAgent("n1")
	c.ready(t, 1)
	as := func(line string, jobs int, more object) object {
		task := shell(jobs, line)
		for name, value := range more {
			task = task.with(name, value)
		}
		return one(task)
	}
	nobody := object{"user": "nobody"}
	refuses := func(moment, want string, more object) {
		t.Helper()
		for _, replica := range replicaNames {
			operation, refused := c.startAs(t, "user-ann", replica, as("id -u", 1, more))
			if refused == nil || refused.Status != http.StatusForbidden || refused.Code != apipb.CodePermissionDenied || !strings.Contains(refused.Message, want) {
				t.Errorf("%s: %s: started %q, %v, want %q", moment, replica, operation, refused, want)
			}
		}
	}
	const gives = "an operator gives it with: weir account allow user:ann "
	refuses("no grant", gives+"--as nobody", nobody)
	refuses("no grant", gives+"--as root", object{"user": "root"})
	refuses("no grant", gives+"--group docker", object{"group": "docker"})
	refuses("no grant", gives+"--isolation-none", object{"isolation": "none"})

	c.cli(t, "account", "allow", "user:ann", "--as", "nobody")
	if list := c.cli(t, "account", "list"); !strings.Contains(list, "user:ann") || !strings.Contains(list, "nobody") {
		t.Errorf("the list is\n%s", list)
	}
	refuses("another account", gives+"--as daemon", object{"user": "daemon"})
	operation, refused := c.startAs(t, "user-ann", live(c), as("id -u", 1, nobody))
	if refused != nil {
		t.Fatal(refused)
	}
	c.ends(t, operation, "completed")
	if got := strings.TrimSpace(c.output(t, c.jobs(t, operation)[0].GetId(), "stdout")); got != "65534" {
		t.Errorf("the job was %q, want nobody", got)
	}

	operation, refused = c.startAs(t, "user-ann", live(c), as("sleep 3600", 2, nobody))
	if refused != nil {
		t.Fatal(refused)
	}
	running := c.runs(t, operation, 2)
	c.cli(t, "account", "disallow", "user:ann", "--as", "nobody")
	refuses("taken away", gives+"--as nobody", nobody)
	for _, job := range c.runs(t, operation, 2) {
		if job.GetId() != running[0].GetId() && job.GetId() != running[1].GetId() {
			t.Errorf("job %s is new", job.GetId())
		}
	}
	// The job that takes the place of this one waits.
	c.cli(t, "job", "abort", running[0].GetId())
	until(t, "the operation says why its jobs wait", func() string {
		got, explained := c.cli(t, "op", "get", operation), c.cli(t, "explain", "op", operation)
		for _, text := range []string{got, explained} {
			if !strings.Contains(text, "run as user nobody") || !strings.Contains(text, gives+"--as nobody") {
				return got + explained
			}
		}
		return ""
	})
	// What the scheduler had planned before it knew is refused on the node, and does not count as failed.
	if left := c.runs(t, operation, 1); left[0].GetId() != running[1].GetId() {
		t.Errorf("job %s runs, want %s", left[0].GetId(), running[1].GetId())
	}
	if failed := c.jobs(t, operation, "failed"); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	c.cli(t, "account", "allow", "user:ann", "--as", "nobody")
	c.runs(t, operation, 2)
	if got := c.cli(t, "op", "get", operation); strings.Contains(got, gives) {
		t.Errorf("allowed again, it still waits:\n%s", got)
	}
}
