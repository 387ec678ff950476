package api

import (
	"fmt"
	"strings"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
)

// learned starts an operation of two jobs whose reserve was learned: j1 has completed, j2
// was aborted for overdraft and runs again as j3.
func (s *site) learned() (operation string) {
	s.t.Helper()
	body := `{"spec": {"tasks": {"t": {"job_count": 2, "command": ["x"], "memory_limit": "512MiB", "memory_profile": "ads/nightly"}}}}`
	operation = s.runAs(body, 2, "j1", "j2")
	user, err := memory.Of(0.25)
	if err != nil {
		s.t.Fatal(err)
	}
	values := map[string]int64{"user_job/max_memory": 128 << 20, "user_job/cumulative_max_memory": 128 << 20, "user_job/cumulative_memory_reserve": 256 << 20, "time/exec": 1500}
	s.must(
		&commandpb.FinishJobs{OperationId: operation, Epoch: 1, Jobs: []*statepb.FinishedJob{
			{
				JobId: "j1", State: lifecycle.JobCompleted.String(), Sample: &statepb.MemorySample{User: 0.25},
				Statistics: &statepb.JobStatistics{MaxMemory: 128 << 20, Values: values},
			},
			{
				JobId: "j2", State: lifecycle.JobAborted.String(), AbortReason: lifecycle.AbortResourceOverdraft.String(),
				Error:      &statepb.Error{Message: "resource overdraft"},
				Statistics: &statepb.JobStatistics{MaxMemory: 500 << 20, Values: map[string]int64{"user_job/max_memory": 500 << 20}},
				NextReserve: &statepb.CookieReserve{
					UserOverdrafts: 1, Reserve: &statepb.JobReserve{User: 512 << 20, Proxy: 16 << 20, UserFactor: 1, Predecessor: "j2"},
				},
			},
		}},
		&commandpb.UpdateReserves{OperationId: operation, Epoch: 1, Tasks: []*commandpb.TaskReserve{{
			Task: "t", Samples: 1, UserDigest: user.Encode(), Reserve: &statepb.JobReserve{User: 128 << 20, Proxy: 16 << 20, UserFactor: 0.25},
		}}},
		&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{{
			JobId: "j3", OperationId: operation, Task: "t", Node: "n1", NodeIncarnation: 1, DedicatedMemory: 528 << 20,
			Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 528 << 20},
		}}},
	)
	return operation
}

// refused checks the code with which a call is refused.
func (s *site) refused(method, body, wantCode string) {
	s.t.Helper()
	if got := s.post(method, body); got.header.Get(apipb.HeaderCode) != wantCode {
		s.t.Errorf("%s %s: code %q, want %s: %s", method, body, got.header.Get(apipb.HeaderCode), wantCode, got.raw)
	}
}

// count is a number of 64 bits as JSON has it.
func count(n int64) string { return fmt.Sprint(n) }

func TestReservesAreShown(t *testing.T) {
	s := newSite(t)
	op := s.learned()
	got := at(t, s.get("OperationService/Get", `{"operation": "`+op+`"}`), "operation", "tasks", 0)
	want(t, got, count(512<<20), "memory", "limit")
	want(t, got, count(144<<20), "memory", "reserve", "total")
	want(t, got, 0.25, "memory", "reserve", "user_factor")
	want(t, got, "1", "memory", "samples")
	want(t, got, "1", "memory", "dedicated")
	want(t, got, "1", "aborted_by_reason", "resource_overdraft")

	job := at(t, s.get("JobService/Get", `{"job_id": "j3"}`), "job")
	want(t, job, count(528<<20), "reserve", "total")
	want(t, job, count(512<<20), "memory_limit")
	want(t, job, "j2", "reserve", "predecessor")

	node := at(t, s.get("NodeService/Get", `{"node": "n1"}`), "node")
	want(t, node, count(512<<20), "memory_limits")
	want(t, node, count(528<<20), "usage", "memory")
}

func TestOperationStatistics(t *testing.T) {
	s := newSite(t)
	op := s.learned()
	all := s.get("OperationService/Statistics", `{"operation": "`+op+`"}`)
	find := func(answer any, state, name string) map[string]any {
		t.Helper()
		for _, entry := range at(t, answer, "statistics").([]any) {
			if e := entry.(map[string]any); e["name"] == name && (e["state"] == state || state == "" && e["state"] == nil) {
				return e
			}
		}
		t.Fatalf("no %s of %q jobs in %v", name, state, answer)
		return nil
	}
	for _, test := range []struct{ state, want string }{{"completed", count(128 << 20)}, {"aborted", count(500 << 20)}, {"", count(500 << 20)}} {
		want(t, find(all, test.state, "user_job/max_memory"), test.want, "max")
	}
	both := find(all, "", "user_job/max_memory")
	want(t, both, "2", "count")
	want(t, both, count(628<<20), "sum")
	want(t, both, "bytes", "unit")
	want(t, find(all, "completed", "time/exec"), "milliseconds", "unit")
	want(t, all, count(512<<20), "advice", 0, "limit")
	want(t, all, count(128<<20), "advice", 0, "p95")
	want(t, all, count(128<<20), "advice", 0, "wasted_byte_seconds")

	one := s.get("OperationService/Statistics", `{"operation": "`+op+`", "task": "t", "state": "aborted"}`)
	if n := len(at(t, one, "statistics").([]any)); n != 1 {
		t.Errorf("%d statistics of aborted jobs, want one: %v", n, one)
	}
	for body, wantCode := range map[string]string{
		`{"operation": "` + op + `", "task": "u"}`:        "unknown_task",
		`{"operation": "` + op + `", "state": "running"}`: "invalid_argument",
		`{"operation": "nobody"}`:                         "unknown_operation",
	} {
		s.refused("OperationService/Statistics", body, wantCode)
	}
}

// TestAlertsAreShown has jobs that use little of a large tmpfs and of their memory.
func TestAlertsAreShown(t *testing.T) {
	s := newSite(t)
	op := s.runAs(`{"spec": {"tasks": {"t": {"job_count": 2, "command": ["x"], "memory_limit": "64GiB", "tmpfs_path": "x", "tmpfs_size": "8GiB"}}}}`, 2, "j1")
	named := `{"operation": "` + op + `"}`
	if alerts, _ := at(t, s.get("OperationService/Get", named), "operation").(map[string]any)["alerts"].([]any); len(alerts) > 0 {
		t.Errorf("alerts of an operation of which nothing is known: %v", alerts)
	}
	s.must(&commandpb.FinishJobs{OperationId: op, Epoch: 1, Jobs: []*statepb.FinishedJob{{
		JobId: "j1", State: lifecycle.JobCompleted.String(), Statistics: &statepb.JobStatistics{Values: map[string]int64{"user_job/max_memory": 8 << 30, "user_job/max_tmpfs_size": 1 << 20}},
	}}})
	got := at(t, s.get("OperationService/Get", named), "operation", "alerts")
	want(t, got, "unused_memory", 0, "name")
	want(t, got, "t", 0, "task")
	want(t, got, "unused_tmpfs_space", 1, "name")
	if advice := at(t, got, 0, "advice").(string); !strings.Contains(advice, "set memory_limit to") {
		t.Errorf("advice %q", advice)
	}
}

func TestJobStatistics(t *testing.T) {
	s := newSite(t)
	s.learned()
	got := s.get("JobService/Statistics", `{"job_id": "j1"}`)
	want(t, got, "completed", "state")
	want(t, got, "time/exec", "statistics", 0, "name")
	want(t, got, "1500", "statistics", 0, "value")
	if known, _ := s.get("JobService/Statistics", `{"job_id": "j3"}`)["statistics"].([]any); len(known) > 0 {
		t.Errorf("a job of which nothing is known yet has %v", known)
	}
	s.live.Store(&actorpb.JobLive{Jobs: []*actorpb.HeldJob{{JobId: "j3", Phase: "running", Memory: 12, ProxyMemory: 3}}})
	want(t, s.get("JobService/Statistics", `{"job_id": "j3"}`), "9", "statistics", 0, "value")
	s.refused("JobService/Statistics", `{"job_id": "nobody"}`, "no_such_job")
}

func TestMemoryProfiles(t *testing.T) {
	s := newSite(t)
	want(t, s.get("MemoryService/Forget", `{"all": true}`), float64(0), "forgotten")
	op := s.learned()
	user, err := memory.Of(0.25, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	s.finish(op, "j3", "completed")
	s.must(&commandpb.SaveMemoryProfiles{OperationId: op, Epoch: 1, Profiles: []*commandpb.SavedProfile{{Task: "t", Profile: &statepb.MemoryProfile{
		Key: "ads/nightly", Task: "t", Command: "x", UserDigest: user.Encode(), SampleCount: 2, OperationCount: 1, MemoryLimit: 512 << 20, Reserve: 144 << 20,
	}}}})
	for _, body := range []string{`{}`, `{"key": "ads/nightly"}`} {
		got := s.get("MemoryService/Profiles", body)
		want(t, got, float64(1), "total")
		want(t, got, "ads/nightly", "profiles", 0, "key")
		want(t, got, op, "profiles", 0, "last_operation")
		want(t, got, 0.25, "profiles", 0, "p50")
		want(t, got, 0.5, "profiles", 0, "p95")
	}
	// Those of others are counted, as long as nobody gives the right to read them.
	others := s.get("MemoryService/Profiles", `{}`, roleHeader, "user/stranger")
	want(t, others, float64(1), "hidden")
	want(t, others, float64(0), "total")
	if got := s.post("MemoryService/Profiles", `{"key": "ads/nightly"}`, roleHeader, "user/stranger"); got.status != 403 || !strings.Contains(got.raw, "needs the right read") {
		t.Errorf("a profile of others: %d %s", got.status, got.raw)
	}
	s.refused("MemoryService/Profiles", `{"key": "other"}`, "unknown_profile")
	s.refused("MemoryService/Profiles", `{"limit": 1001}`, "invalid_argument")
	s.refused("MemoryService/Forget", `{}`, "invalid_argument")
	s.refused("MemoryService/Forget", `{"all": true, "keys": ["x"]}`, "invalid_argument")
	s.refused("MemoryService/Forget", `{"keys": ["other"]}`, "unknown_profile")
	want(t, s.get("MemoryService/Forget", `{"keys": ["ads/nightly", "ads/nightly"]}`), float64(1), "forgotten")
	want(t, s.get("MemoryService/Profiles", `{}`), float64(0), "total")
}
