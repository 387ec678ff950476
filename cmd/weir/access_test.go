package main

import (
	"strings"
	"testing"
	"time"

	"weir/scheduling/audit"
)

func TestAuditText(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for want, line := range map[string]audit.Line{
		"2026-01-02 03:04:05.006  r1    user ann at 10.0.0.1: denied OperationService/Abort operation x: permission_denied: may not": {
			Role: "user", User: "ann", Address: "10.0.0.1", Method: "OperationService/Abort", Object: "operation x", Right: "manage", Outcome: audit.Denied,
			Code: "permission_denied", Why: "may not",
		},
		"2026-01-02 03:04:05.006  r1    user zoe by gateway web of crew,x: allowed NodeService/Drain node n1": {
			Role: "user", User: "zoe", Gateway: "web", Groups: "crew,x", Method: "NodeService/Drain", Object: "node n1", Outcome: audit.Allowed,
		},
		"2026-01-02 03:04:05.006  r1    user ann: denied NodeService/Drain (various objects) (70 times): permission_denied": {
			Role: "user", User: "ann", Method: "NodeService/Drain", Various: true, Count: 70, Outcome: audit.Denied, Code: "permission_denied",
		},
		"2026-01-02 03:04:05.006  r1    user ann: lost (3 times): no room": {Role: "user", User: "ann", Outcome: audit.Lost, Why: "no\nroom", Count: 3},
	} {
		line.Time, line.Replica = at, "r1"
		if got := auditText(line, time.UTC); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
	if _, err := parseAudit("{"); err == nil || !strings.Contains(err.Error(), `line "{"`) {
		t.Error(err)
	}
}

func TestAuditLogFlags(t *testing.T) {
	for size, want := range map[string]string{"64MiB": "", "1MiB": "", "100KiB": "the minimum is 1MiB", "much": "is not a size"} {
		f := &serverFlags{auditSize: size, data: "d", id: "r1"}
		cfg, err := f.auditLog(nil)
		if want == "" && (err != nil || cfg.Dir != "d/audit" || cfg.Replica != "r1") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", size, cfg, err)
		}
	}
}
