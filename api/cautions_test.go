package api

import (
	"strings"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestCautions: what an operation will suffer from is said when it is started, and whenever it is
// looked at.
func TestCautions(t *testing.T) {
	s := newSite(t)
	s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n1", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 1000, Memory: 1 << 30}}})
	for name, tc := range map[string]struct{ spec, alert, says string }{
		"nothing":                      {`"tasks": {"t": {"job_count": 1, "command": ["true"]}}`, "", ""},
		"graceful, and cannot be told": {`"preemption_mode": "graceful", "tasks": {"t": {"job_count": 1, "command": ["true"]}}`, "graceful_without_signal", "task t: preemption_mode is graceful, but its jobs"},
		"graceful, and can be":         {`"preemption_mode": "graceful", "tasks": {"t": {"job_count": 1, "command": ["true"], "interruption_signal": "TERM"}}`, "", ""},
		"too large":                    {`"tasks": {"t": {"job_count": 1, "command": ["true"], "cpu_limit": 1000}}`, "too_large", "but a job needs 1000"},
		"an unknown user":              {`"tasks": {"t": {"job_count": 1, "command": ["true"], "user": "nosuchuser"}}`, "unknown_user", `task t: user "nosuchuser" is not known on the replica that answers`},
		"an unknown group":             {`"tasks": {"t": {"job_count": 1, "command": ["true"], "user": "root", "group": "nosuchgroup"}}`, "unknown_user", `task t: group "nosuchgroup"`},
		"a number":                     {`"tasks": {"t": {"job_count": 1, "command": ["true"], "user": "12345"}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			started := s.get("OperationService/Start", `{"spec": {`+tc.spec+`}}`)
			warnings, _ := started["warnings"].([]any)
			op := at(t, s.get("OperationService/Get", `{"operation": "`+at(t, started, "operation_id").(string)+`"}`), "operation")
			alerts, _ := op.(map[string]any)["alerts"].([]any)
			if tc.alert == "" {
				if len(warnings)+len(alerts) > 0 {
					t.Errorf("told of %v, %v", warnings, alerts)
				}
				return
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0].(string), tc.says) {
				t.Errorf("told of %v, want %q", warnings, tc.says)
			}
			want(t, op, tc.alert, "alerts", 0, "name")
		})
	}
}

// TestCautionsOfUsersEnd: where jobs of a task have completed, the nodes know its user.
func TestCautionsOfUsersEnd(t *testing.T) {
	s := newSite(t)
	id := s.runAs(`{"spec": {"tasks": {"t": {"job_count": 2, "command": ["run"], "user": "nosuchuser"}}}}`, 2, "j1", "j2")
	alerts := func() []any {
		op := at(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "operation")
		return at(t, op, "alerts").([]any)
	}
	s.finish(id, "j1", "failed")
	if got := alerts(); len(got) != 1 {
		t.Errorf("jobs have only failed: %v", got)
	}
	s.must(&commandpb.FinishJobs{OperationId: id, Epoch: 1, Jobs: []*statepb.FinishedJob{{JobId: "j2", State: "completed", Pid: 7}}})
	if got := alerts(); len(got) != 0 {
		t.Errorf("one has completed: %v", got)
	}
}
