package main

import (
	"slices"
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

// TestAuditFilters (T8): which lines weir audit shows, in the order in which they were decided.
func TestAuditFilters(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lines := []auditFound{
		{Line: audit.Line{Seq: 1, Time: at.Add(time.Second), Replica: "r2", User: "ann", Outcome: audit.Denied, Object: "pool ads"}},
		{Line: audit.Line{Seq: 9, Time: at, Replica: "r1", User: "bob", Outcome: audit.Allowed, Object: "tree x", Change: "weight 1 -> 5 on pool ads"}},
		{Line: audit.Line{Seq: 3, Time: at.Add(2 * time.Second), Replica: "r1", User: "zoe", Gateway: "web", Outcome: audit.Failed}},
	}
	slices.SortFunc(lines, byTime)
	for want, filter := range map[string]auditFilter{
		"bob ann zoe": {}, "ann": {user: "ann"}, "zoe": {user: "web"}, "bob": {outcome: "allowed"}, "bob ann": {object: "pool ads"}, "": {user: "ann", outcome: "failed"},
	} {
		var got []string
		for _, line := range lines {
			if filter.takes(line.Line) {
				got = append(got, line.User)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%+v: %q, want %q", filter, got, want)
		}
	}
	if err := (auditFilter{outcome: "refused"}).check(); err == nil || !strings.Contains(err.Error(), "allowed, denied, failed, lost") {
		t.Error(err)
	}
	for text, want := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "1d": 24 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := longAgo(text); err != nil || got != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "-1d", "d", "99999999d"} {
		if _, err := longAgo(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if got := auditText(lines[0].Line, time.UTC); !strings.Contains(got, "tree x: weight 1 -> 5 on pool ads") {
		t.Error(got)
	}
}
