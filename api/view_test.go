package api

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func TestStartAndShow(t *testing.T) {
	s := newSite(t)
	body := `{"spec": {"title": "first", "annotations": {"team": "ads"}, "time_limit": "1h",
		"tasks": {"t": {"job_count": 2, "command": "sleep 1", "shell": true}}}, "mutation_id": "m1"}`
	first := s.get("OperationService/Start", body)
	want(t, first, false, "repeated")
	again := s.get("OperationService/Start", body)
	want(t, again, true, "repeated")
	want(t, again, at(t, first, "operation_id"), "operation_id")

	id := at(t, first, "operation_id").(string)
	op := at(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "operation")
	want(t, op, "default", "pool")
	want(t, op, "first", "title")
	want(t, op, "oda", "user")
	want(t, op, "ads", "annotations", "team")
	want(t, op, "sleep 1", "spec", "tasks", "t", "command")
	want(t, op, float64(512<<20), "spec", "tasks", "t", "memory_limit")
	if _, known := op.(map[string]any)["fair_share"]; known {
		t.Error("a fair share is shown that nobody knows")
	}
	s.view.Store(&actorpb.SchedulerView{Elements: []*actorpb.ElementView{
		{Tree: "default", Id: id, FairShare: 0.25, UsageShare: 0.5, DemandShare: 1}, {Tree: "default", Id: "default", Pool: true, FairShare: 0.75, Usage: &statepb.Resources{CpuHundredths: 150}},
	}})
	want(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), 0.25, "operation", "fair_share")
	want(t, s.get("PoolService/Get", `{"name": "default"}`), 0.75, "pool", "fair_share")
	want(t, s.get("PoolService/Get", `{"name": "default"}`), 1.5, "pool", "usage", "cpu")
	s.view.Store(&actorpb.SchedulerView{Elements: []*actorpb.ElementView{
		{Tree: "default", Id: "<Root>", Pool: true, Alerts: []string{"too much"}}, {Tree: "default", Id: "default", Pool: true, Alerts: []string{"no donor"}},
	}})
	want(t, s.get("PoolService/List", "{}"), "too much", "alerts", 0)
	want(t, s.get("PoolService/List", "{}"), "no donor", "alerts", 1)
}

func TestASilentSchedulerHoldsNothingUp(t *testing.T) {
	s := newSite(t)
	s.run(1, "j1")
	s.mute.Store(true)
	for method, body := range map[string]string{
		"OperationService/List": "{}", "PoolService/List": "{}", "NodeService/Get": `{"node": "n1"}`,
	} {
		// Less than the patience of a call.
		s.get(method, body, "Connect-Timeout-Ms", "5000")
	}
}

func TestListPages(t *testing.T) {
	s := newSite(t)
	for _, more := range []string{`, "title": "red"`, `, "title": "blue"`, `, "title": "red too"`} {
		s.get("OperationService/Start", startBody(1, more))
	}
	page := s.get("OperationService/List", `{"filter": "red", "limit": 1}`)
	want(t, page, "red too", "operations", 0, "title")
	want(t, page, true, "incomplete")
	page = s.get("OperationService/List", `{"filter": "red", "limit": 1, "after": "`+at(t, page, "operations", 0, "id").(string)+`"}`)
	want(t, page, "red", "operations", 0, "title")
	want(t, page, false, "incomplete")
	for filter, wantCount := range map[string]int{
		`{"state": "starting"}`: 3, `{"state": "running"}`: 0, `{"user": "oda"}`: 3, `{"user": "ann"}`: 0, `{"pool": "default"}`: 3, `{"in_progress": true}`: 3,
	} {
		if got := len(at(t, s.get("OperationService/List", filter), "operations").([]any)); got != wantCount {
			t.Errorf("%s: %d operations, want %d", filter, got, wantCount)
		}
	}
}

func TestSteering(t *testing.T) {
	s := newSite(t)
	id := s.run(1, "j1")
	named := `{"operation": "` + id + `"`
	s.get("OperationService/Suspend", named+`, "abort_running_jobs": true}`)
	want(t, s.get("OperationService/Get", named+"}"), true, "operation", "suspended")
	want(t, s.get("JobService/Get", `{"job_id": "j1"}`), "operation_suspended", "job", "stopping")
	s.get("OperationService/Resume", named+"}")
	want(t, s.get("OperationService/Get", named+"}"), false, "operation", "suspended")
	s.get("OperationService/Complete", named+"}")
	want(t, s.get("OperationService/Get", named+"}"), "completing", "operation", "state")
	events := s.get("OperationService/Events", named+"}")
	notes := map[any]bool{}
	for _, e := range at(t, events, "events").([]any) {
		notes[e.(map[string]any)["note"]] = true
	}
	for _, note := range []string{"suspended", "resumed", "completed_by_user"} {
		if !notes[note] {
			t.Errorf("no event %s in %v", note, events)
		}
	}
}

func TestJobs(t *testing.T) {
	s := newSite(t)
	id := s.run(5, "j1", "j2", "j3", "leaving")
	token := at(t, s.get("JobService/Get", `{"job_id": "j1"}`), "job", "token")
	s.finish(id, "j1", "completed")
	s.live.Store(&actorpb.JobLive{Jobs: []*actorpb.HeldJob{
		{JobId: "j2", Phase: "running", Pid: 42, Memory: 9}, {JobId: "leaving", Phase: "aborting"}, {JobId: "unknown", Phase: "running"},
	}})
	all := s.get("JobService/List", `{"operation": "`+id+`"}`)
	want(t, all, 4.0, "total")
	for i, test := range []struct{ id, state, stopping string }{
		{"j2", "running", ""}, {"j3", "waiting", ""}, {"leaving", "aborting", "preemption"}, {"j1", "completed", ""},
	} {
		want(t, all, test.id, "jobs", i, "id")
		want(t, all, test.state, "jobs", i, "state")
		want(t, all, test.stopping, "jobs", i, "stopping")
	}
	want(t, all, token, "jobs", 3, "token")
	want(t, all, "42", "jobs", 0, "pid")
	want(t, all, "9", "jobs", 0, "statistics", "max_memory")
	want(t, all, 1.5, "jobs", 3, "statistics", "cpu_user_seconds")

	page := s.get("JobService/List", `{"operation": "`+id+`", "limit": 1, "offset": 3}`)
	want(t, page, "j1", "jobs", 0, "id")
	// The leader is asked for those that are shown alone.
	want(t, s.get("JobService/List", `{"operation": "`+id+`", "limit": 1, "offset": 1}`), 4.0, "total")
	if asked := *s.jobsAsked.Load(); !slices.Equal(asked, []string{"j3"}) {
		t.Errorf("the leader is asked for %v", asked)
	}
	want(t, s.get("JobService/List", `{"operation": "`+id+`", "state": "completed"}`), 1.0, "total")
	want(t, s.get("JobService/List", `{"operation": "`+id+`", "state": "aborting", "limit": 1}`), "leaving", "jobs", 0, "id")
	want(t, s.get("JobService/List", `{"operation": "`+id+`", "state": "running"}`), 1.0, "total")
	want(t, s.get("JobService/List", `{"operation": "`+id+`", "node": "n2"}`), 0.0, "total")
	want(t, s.get("JobService/List", `{"operation": "`+id+`", "task": "t", "offset": 9}`), 4.0, "total")
	want(t, s.get("JobService/Get", `{"job_id": "j1"}`), 3.0, "job", "exit_code")
	if got := s.post("JobService/List", `{"operation": "`+id+`", "task": "nosuch"}`); got.status != 404 || !strings.Contains(got.raw, `has no task \"nosuch\": it has t`) {
		t.Errorf("jobs of a task that is not there: %d %s", got.status, got.raw)
	}

	s.get("JobService/Abort", `{"job_id": "j2", "reason": "slow"}`)
	want(t, s.get("JobService/Get", `{"job_id": "j2"}`), "user_request", "job", "stopping")
	if got := s.post("JobService/Abort", `{"job_id": "j1"}`); got.status != 400 || got.header.Get(apipb.HeaderCode) != "job_ended" {
		t.Errorf("abort of a job that has ended: %d %s", got.status, got.raw)
	}
}

func TestAbortOfAJobThatEndsMeanwhile(t *testing.T) {
	s := newSite(t)
	id := s.run(1, "j1")
	ends := func() { s.finish(id, "j1", "completed") }
	s.before.Store(&ends)
	if got := s.post("JobService/Abort", `{"job_id": "j1"}`); got.status != 400 || got.header.Get(apipb.HeaderCode) != "job_ended" {
		t.Errorf("%d %s", got.status, got.raw)
	}
}

func TestOutput(t *testing.T) {
	s := newSite(t)
	s.run(1, "j1")
	s.output = func(m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
		switch {
		case m.GetNode() != "n1" || m.GetLimit() != outputBytes:
			return nil, errors.New("asked for the wrong thing")
		case m.GetStream() == "stdout":
			return &actorpb.OutputPart{Data: []byte("hallo\n")[m.GetOffset():], NextOffset: 6, End: true}, nil
		default:
			return &actorpb.OutputPart{Data: []byte{0xff, 0xfe}, NextOffset: 2}, nil
		}
	}
	text := s.get("JobService/Output", `{"job_id": "j1", "stream": "stdout", "offset": "2"}`)
	want(t, text, "llo\n", "text")
	want(t, text, "bGxvCg==", "data")
	want(t, text, "6", "next_offset")
	want(t, text, true, "end")
	binary := s.get("JobService/Output", `{"job_id": "j1", "stream": "stderr"}`)
	want(t, binary, "", "text")
	want(t, binary, "//4=", "data")

	s.output = func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) { return nil, errors.New("not connected") }
	if got := s.post("JobService/Output", `{"job_id": "j1", "stream": "stdout"}`); got.status != 503 {
		t.Errorf("from a node that may come back at once: %d %s", got.status, got.raw)
	}
	s.output = func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) {
		return nil, &actorpb.Refused{Code: "not_found"}
	}
	early := s.get("JobService/Output", `{"job_id": "j1", "stream": "stdout", "offset": "3"}`)
	want(t, early, "", "data")
	want(t, early, "3", "next_offset")
	want(t, early, false, "end")
	s.must(&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1})
	s.output = func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) { return nil, errors.New("not connected") }
	got := s.post("JobService/Output", `{"job_id": "j1", "stream": "stdout"}`)
	if got.status != 400 || got.header.Get(apipb.HeaderCode) != "node_offline" || !strings.Contains(got.raw, "is offline") {
		t.Errorf("from a node that is offline: %d %s", got.status, got.raw)
	}
}

func TestAMistakeEndsOneCall(t *testing.T) {
	s := newSite(t)
	s.run(1, "j1")
	s.output = func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) { panic("out of range") }
	got := s.post("JobService/Output", `{"job_id": "j1", "stream": "stdout"}`)
	if got.status != 500 || got.header.Get(apipb.HeaderCode) != "internal" || strings.Contains(got.raw, "out of range") {
		t.Errorf("%d %s", got.status, got.raw)
	}
	s.get("JobService/Get", `{"job_id": "j1"}`)
}

func TestNodesAndStatus(t *testing.T) {
	s := newSite(t)
	empty := s.get("ClusterService/Status", "{}")
	s.run(3, "j1", "leaving")
	s.view.Store(&actorpb.SchedulerView{Nodes: []*actorpb.NodeView{{Id: "n1", MemoryUsed: 5, Files: &actorpb.FileCache{Files: 3, Bytes: 6, Limit: 7}}}})
	node := s.get("NodeService/Get", `{"node": "n1"}`)
	want(t, node, "online", "node", "state")
	want(t, node, 2.0, "node", "usage", "cpu")
	want(t, node, "5", "node", "memory_used")
	want(t, node, "6", "node", "file_cache", "bytes")
	want(t, node, "7", "node", "file_cache", "limit")
	want(t, node, "2", "node", "jobs")
	want(t, node, "preemption", "jobs", 1, "stopping")
	want(t, s.get("NodeService/List", `{"state": "online"}`), "fast", "nodes", 0, "tags", 0)
	if got := len(at(t, s.get("NodeService/List", `{"state": "offline"}`), "nodes").([]any)); got != 0 {
		t.Errorf("%d nodes offline", got)
	}

	status := s.get("ClusterService/Status", "{}")
	want(t, status, "c1", "cluster_id")
	want(t, status, "r1", "leader")
	want(t, status, true, "quorum")
	want(t, status, "2", "jobs_running")
	want(t, status, "1", "jobs_pending")
	want(t, status, "1", "operations_running")
	want(t, status, 10.0, "total", "cpu")
	want(t, status, 2.0, "usage", "cpu")
	want(t, status, "1", "members", 0, "operations_controlled")
	problems := at(t, status, "problems").([]any)
	for i, want := range []string{"r2 runs version v1", "r3 at r3.example:7701 is down", "2 of 3 voting replicas are up, the minimum"} {
		if len(problems) != 3 || !strings.Contains(problems[i].(string), want) {
			t.Errorf("problems: %v, want %q", problems, want)
		}
	}
	if got := at(t, empty, "problems").([]any); len(got) != 4 || !strings.Contains(got[3].(string), "no node is online") {
		t.Errorf("problems of an empty cluster: %v", got)
	}
	s.lead("")
	s.must(&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1})
	problems = at(t, s.get("ClusterService/Status", "{}"), "problems").([]any)
	if !strings.Contains(problems[0].(string), "no leader is known") || !strings.Contains(problems[len(problems)-1].(string), "node n1 is offline") {
		t.Errorf("problems without a leader: %v", problems)
	}
}

func TestTransfer(t *testing.T) {
	s := newSite(t)
	want(t, s.get("ClusterService/Transfer", `{"to": "r1"}`), "r1", "leader")
	if n := s.transfers.Load(); n != 0 {
		t.Errorf("%d transfers to the leader itself", n)
	}
	want(t, s.get("ClusterService/Transfer", `{}`), "r2", "leader")
	got := s.post("ClusterService/Transfer", `{"to": "r3"}`)
	if got.status != 503 || got.header.Get(apipb.HeaderCode) != "not_leader" || got.header.Get(apipb.HeaderLeader) != "r2.example:7701" {
		t.Errorf("at a replica that does not lead: %d %v %s", got.status, got.header, got.raw)
	}
	members := s.get("ClusterService/Members", "{}")
	want(t, members, true, "members", 1, "leader")
	want(t, members, false, "members", 2, "alive")
	want(t, members, "voter", "members", 2, "suffrage")
}
