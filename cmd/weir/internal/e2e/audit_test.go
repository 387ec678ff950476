package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/messages/apipb"
	"weir/scheduling/audit"
)

// auditSize is the size of audit logs in TestAudit, in bytes. It is the smallest.
const auditSize = 1 << 20

// TestAudit (T8): who was refused, who changed something and who read an output is told, with the
// reason, by all replicas; also after one was killed; and a user who makes calls without end loses lines
// about himself alone.
func TestAudit(t *testing.T) {
	c := prepareCluster(t, here, "n1")
	c.more = []string{"--audit-log-size", fmt.Sprint(auditSize)}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.startAgent("n1")
	for _, user := range []string{"bob", "mallory"} {
		if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "user", "--name", user); code != 0 {
			t.Fatalf("tls issue: exit code %d\n%s", code, printed)
		}
	}
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
	}
	follower := c.launch("audit", c.launcher, append(c.auditFlags("operator-admin"), "--follow")...)
	c.ask(t, "PoolService/Edit", makePool("ads", object{"acl": object{"read": []string{"user:bob"}, "manage": []string{"user:bob"}}}), &apipb.EditTreeResponse{})
	operation := c.start(t, one(object{"job_count": 1, "shell": true, "command": "echo hello; sleep 1000", "cpu_limit": 0.1, "memory_limit": "64MiB"}, object{"pool": "ads"}))
	c.runs(t, operation, 1)
	job := c.jobs(t, operation)[0].GetId()

	of, output := fmt.Sprintf(`{"operation": %q}`, operation), fmt.Sprintf(`{"job_id": %q, "stream": "stdout"}`, job)
	c.says(t, "user-ann", "r1", "OperationService/Abort", of, http.StatusForbidden)
	c.says(t, "user-ann", "r2", "JobService/Output", output, http.StatusForbidden)
	c.says(t, "user-bob", "r2", "JobService/Output", output, http.StatusOK)
	c.says(t, "user-bob", "r3", "OperationService/Abort", of, http.StatusOK)
	c.ends(t, operation, "aborted")
	why := fmt.Sprintf("user \"ann\" may not abort operation %s of user \"admin\": this needs the right manage on pool \"ads\", held by user:bob", operation)
	wanted := map[string]audit.Line{
		"ann is refused to abort":         {Replica: "r1", User: "ann", Method: "OperationService/Abort", Object: "operation " + operation, Right: "manage", Outcome: audit.Denied, Code: "permission_denied", Why: why},
		"ann is refused an output":        {Replica: "r2", User: "ann", Method: "JobService/Output", Object: "job " + job, Right: "read", Outcome: audit.Denied, Code: "permission_denied"},
		"bob reads an output":             {Replica: "r2", User: "bob", Method: "JobService/Output", Object: "job " + job, Right: "read", Outcome: audit.Allowed},
		"bob aborts":                      {Replica: "r3", User: "bob", Method: "OperationService/Abort", Object: "operation " + operation, Right: "manage", Outcome: audit.Allowed},
		"the operator changes pools":      {User: "admin", Role: "operator", Method: "PoolService/Edit", Object: "pool ads", Right: "administer", Outcome: audit.Allowed},
		"the operator starts it":          {User: "admin", Method: "OperationService/Start", Object: "operation " + operation + " pool ads", Right: "use", Outcome: audit.Allowed},
		"somebody follows the audit logs": {Replica: "r1", User: "admin", Method: "AuditService/Read", Right: "operator", Outcome: audit.Allowed},
	}
	for what, line := range wanted {
		c.audited(t, what, line, func() string { return c.audit(t) })
		c.audited(t, what, line, follower.printed)
	}
	if printed, code := weir(t, c.auditFlags("user-bob")...); code == 0 || !strings.Contains(printed, "is for operators") {
		t.Errorf("bob reads the audit log: exit code %d: %s", code, printed)
	}

	c.process("r1").kill()
	follower.says(t, "replica r1 does not answer")
	missing := fmt.Sprintf(`{"operation": %q}`, "op-of-nobody")
	c.says(t, "user-bob", "r2", "OperationService/Suspend", missing, http.StatusNotFound)
	c.audited(t, "what others say meanwhile", audit.Line{Replica: "r2", User: "bob", Method: "OperationService/Suspend", Outcome: audit.Failed, Code: "unknown_operation"}, follower.printed)
	if printed, code := weir(t, append(c.auditFlags("operator-admin"), "--timeout", "20s")...); code == 0 || !strings.Contains(printed, "lines are missing: replica r1") {
		t.Errorf("with a dead replica: exit code %d: %s", code, printed)
	}
	c.startReplica("r1").says(t, "ready")
	c.says(t, "user-ann", "r1", "NodeService/Drain", `{"node": "n1"}`, http.StatusForbidden)
	c.audited(t, "what a replica says that is back", audit.Line{Replica: "r1", User: "ann", Method: "NodeService/Drain", Object: "node n1", Right: "operator", Outcome: audit.Denied, Code: "permission_denied"}, follower.printed)

	c.fillAudit(t, "r2")
	for what, line := range wanted {
		c.audited(t, what+", after the flood", line, func() string { return c.audit(t) })
	}
	// The follower tells each line once, also over a break.
	if got := strings.Count(follower.printed(), `"method":"NodeService/Drain"`); got != 1 {
		t.Errorf("the drain is told %d times", got)
	}
}

// says makes a call until it is answered with a status.
func (c *cluster) says(t *testing.T, folder, replica, method, body string, wantStatus int) {
	t.Helper()
	until(t, fmt.Sprintf("%s at %s as %s", method, replica, folder), func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		status, answer, err := c.post(ctx, folder, replica, method, body)
		switch {
		case err != nil:
			return err.Error()
		case status != wantStatus && !notNow(status):
			t.Fatalf("%s at %s as %s: %d %s, want %d", method, replica, folder, status, answer, wantStatus)
		case status != wantStatus:
			return string(answer)
		}
		return ""
	})
}

func (c *cluster) auditFlags(folder string) []string {
	var addresses []string
	for _, name := range replicaNames {
		addresses = append(addresses, c.addresses[name])
	}
	return []string{"audit", "-o", "json", "--addresses", strings.Join(addresses, ","), "--credentials", c.certs(folder)}
}

// audit returns all lines of all replicas.
func (c *cluster) audit(t *testing.T) string {
	t.Helper()
	printed, code := weir(t, c.auditFlags("operator-admin")...)
	if code != 0 {
		t.Errorf("weir audit: exit code %d: %s", code, printed)
	}
	return printed
}

// audited waits until one of the lines has what is set in want; of Why the beginning.
func (c *cluster) audited(t *testing.T, what string, want audit.Line, lines func() string) {
	t.Helper()
	fits := func(got, want string) bool { return want == "" || got == want }
	until(t, what, func() string {
		printed := lines()
		for raw := range strings.Lines(printed) {
			var l audit.Line
			if json.Unmarshal([]byte(raw), &l) == nil && fits(l.Replica, want.Replica) && fits(l.User, want.User) && fits(l.Role, want.Role) && fits(l.Method, want.Method) &&
				fits(l.Object, want.Object) && fits(l.Right, want.Right) && l.Outcome == want.Outcome && l.Code == want.Code && strings.HasPrefix(l.Why, want.Why) &&
				l.Address != "" && l.Request != "" && !l.Time.IsZero() {
				return ""
			}
		}
		return fmt.Sprintf("%+v is not in\n%s", want, tail(printed, 20))
	})
}

// fillAudit has mallory make calls about ever new objects at a replica, until its audit log is full.
func (c *cluster) fillAudit(t *testing.T, replica string) {
	t.Helper()
	dir := filepath.Join(c.data(replica), "audit")
	var calls sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for caller := range 8 {
		calls.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				// Whether it is answered or not, somebody else is not to suffer.
				_, _, _ = c.post(ctx, "user-mallory", replica, "NodeService/Undrain", fmt.Sprintf(`{"node": "%s-%d-%d"}`, strings.Repeat("n", 200), caller, i))
			}
		})
	}
	until(t, "the audit log is full", func() string {
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		size := 0
		for _, file := range files {
			data, _ := os.ReadFile(file)
			size += len(data)
			if strings.Contains(string(data), `"outcome":"lost"`) {
				return ""
			}
		}
		if size > auditSize {
			t.Fatalf("the audit log has %d bytes, the limit is %d", size, auditSize)
		}
		return fmt.Sprintf("%d bytes in %d files", size, len(files))
	})
	cancel()
	calls.Wait()
}
