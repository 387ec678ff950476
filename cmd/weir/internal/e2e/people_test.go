package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/messages/apipb"
)

// TestPageOfTenancy types what docs/tenancy.md says: the operator divides a cluster, then each user
// types what the page has behind the user's name, and is refused what the page says is refused,
// with these words. In between the leader is killed.
func TestPageOfTenancy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	for line := range strings.Lines(block(t, "docs/tenancy.md", "A first hour")) {
		if printed, err := c.typedAs(t, "operator-admin", repository, line); err != nil {
			t.Errorf("%s: %v\n%s", line, err, printed)
		}
	}
	// Users become who they are as the page says, too.
	if err := os.RemoveAll(c.certs("user-ann")); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(block(t, "docs/tenancy.md", "Becoming ann")) {
		if printed, err := c.typedAs(t, "operator-admin", filepath.Dir(c.certs()), line); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, printed)
		}
	}
	text, err := os.ReadFile(filepath.Join(repository, "docs/tenancy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, story, _ := strings.Cut(string(text), "From now on each of them")
	_, story, _ = strings.Cut(story, "```\n")
	story, _, _ = strings.Cut(story, "```\n")
	lines := strings.Split(strings.TrimSuffix(story, "\n"), "\n")
	commands, refusals := 0, 0
	for i, line := range lines {
		user, command, typed := strings.Cut(line, "$")
		if !typed || strings.HasPrefix(line, " ") {
			continue
		}
		want := ""
		if i+1 < len(lines) {
			want, _ = strings.CutPrefix(lines[i+1], "  refused: ")
			if want == lines[i+1] {
				want = ""
			}
		}
		if commands++; commands == 5 {
			c.process(c.leader(t)).kill()
		}
		printed, err := c.typedAs(t, "user-"+user, repository, command)
		t.Logf("%s\n%s", line, printed)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v\n%s", line, err, printed)
		case want != "":
			if refusals++; err == nil || !strings.Contains(printed, want) {
				t.Errorf("%s: %v, want a refusal %q\n%s", line, err, want, printed)
			}
		}
	}
	if commands < 8 || refusals < 5 {
		t.Errorf("the page has %d commands and %d refusals", commands, refusals)
	}
}

// TestStrangerIsKeptOut is the attack of one who may call the API: a stranger reads nothing that
// another wrote, and ends nothing, at no replica.
func TestStrangerIsKeptOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "user", "--name", "mallory"); code != 0 {
		t.Fatal(printed)
	}
	spec := one(small(1, "run", c.folder(t), "1h").with("environment", object{"TOKEN": "very-secret"}), object{"title": "secret plan"})
	operation := c.start(t, spec)
	job := c.runs(t, operation, 1)[0].GetId()
	for _, replica := range replicaNames {
		for method, body := range map[string]string{
			"OperationService/Abort": `{"operation": "` + operation + `"}`, "OperationService/Suspend": `{"operation": "` + operation + `"}`,
			"OperationService/Complete": `{"operation": "` + operation + `"}`, "OperationService/Update": `{"operation": "` + operation + `", "changes": [{"options": {"weight": 9}}]}`,
			"OperationService/Retry":  `{"operation": "` + operation + `", "jobs": "unfinished"}`,
			"OperationService/Events": `{"operation": "` + operation + `"}`, "OperationService/Instances": `{"operation": "` + operation + `"}`,
			"JobService/Abort": `{"job_id": "` + job + `"}`, "JobService/Interrupt": `{"job_id": "` + job + `"}`, "JobService/Get": `{"job_id": "` + job + `"}`,
			"JobService/Output": `{"job_id": "` + job + `", "stream": "stdout"}`, "JobService/List": `{"operation": "` + operation + `"}`,
			"PoolService/Edit": `{"edits": [{"create": {"name": "mallorys"}}]}`, "NodeService/Drain": `{"node": "` + c.node("n1") + `"}`,
			"AccessService/EditGroup": `{"group": "g", "add": ["mallory"]}`, "ClusterService/Transfer": `{}`,
		} {
			if refused := c.refusedTo(t, "user-mallory", replica, method, body); refused.Code != apipb.CodePermissionDenied {
				t.Errorf("%s at %s: %v", method, replica, refused)
			}
		}
		for _, method := range []string{"OperationService/Get", "OperationService/List"} {
			_, data := c.answered(t, "user-mallory", replica, method, `{"operation": "`+operation+`"}`)
			if method == "OperationService/List" {
				_, data = c.answered(t, "user-mallory", replica, method, `{}`)
			}
			if text := string(data); strings.Contains(text, "secret") || !strings.Contains(text, operation) {
				t.Errorf("%s at %s shows %s", method, replica, text)
			}
		}
	}
	// A plan names all rights that mallory lacks, and changes nothing.
	file := filepath.Join(c.dir, "pools.yaml")
	if err := os.WriteFile(file, []byte("options: {max_operation_count: 7}\npools:\n  default: {weight: 2}\n  mallorys: {weight: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	printed, code := weir(t, "pool", "apply", "-f", file, "--dry-run", "--addresses", c.addresses["r1"], "--credentials", c.certs("user-mallory"))
	for _, word := range []string{`may not create pool "mallorys"`, `may not change pool "default"`, "may not change the options of pool tree", "--allow user:mallory=administer", "would be refused"} {
		if !strings.Contains(printed, word) || code != 5 {
			t.Errorf("exit code %d, without %q:\n%s", code, word, printed)
		}
	}
	if op := c.get(t, operation); op.GetState() != "running" || op.GetSuspended() || op.GetWeight() != 1 {
		t.Errorf("the operation is %v", op)
	}
}
