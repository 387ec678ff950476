package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/explainpb"
	"weir/messages/statepb"
)

// explain returns the one explanation.
func (s *site) explain(m *apipb.ExplainRequest) *explainpb.Explanation {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.New(client.Config{HTTP: s.client, URL: func(string) string { return s.url }, Addresses: []string{"r1.example:7701"}, Try: patience, Deadline: patience})
	if err != nil {
		s.t.Fatal(err)
	}
	said, err := c.Explain(ctx, m)
	if err != nil || len(said) != 1 {
		s.t.Fatalf("got %v, %v", said, err)
	}
	return said[0]
}

// factOf returns the first fact of a code.
func factOf(t *testing.T, x *explainpb.Explanation, code string) *explainpb.Fact {
	t.Helper()
	for _, f := range x.GetFacts() {
		if f.GetCode() == code {
			return f
		}
	}
	t.Fatalf("no fact %s in %v", code, x)
	return nil
}

// start starts an operation in a pool, and leads it to pending.
func (s *site) pending(pool string) string {
	s.t.Helper()
	body := startBody(1, "")
	body = strings.Replace(body, `"spec": {`, `"spec": {"pool": "`+pool+`", `, 1)
	id := at(s.t, s.get("OperationService/Start", body), "operation_id").(string)
	s.must(
		&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "starting", To: "waiting_for_agent"},
		&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: id, Replica: "r1", Epoch: 1}}},
		&commandpb.PrepareOperation{OperationId: id, Epoch: 1},
	)
	return id
}

func (s *site) pools(pools map[string][2]any) {
	s.t.Helper()
	for _, name := range []string{"top", "below"} {
		if pools[name] == [2]any{} {
			continue
		}
		options, err := structpb.NewStruct(map[string]any{"max_running_operation_count": pools[name][1], "max_operation_count": 3.0})
		if err != nil {
			s.t.Fatal(err)
		}
		s.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: name, Parent: pools[name][0].(string), Options: options}}}}})
	}
}

func TestExplainOperationsThatWait(t *testing.T) {
	s := newSite(t)
	s.pools(map[string][2]any{"top": {"", 1.0}, "below": {"top", 2.0}})
	first := s.pending("below")
	if x := s.explain(&apipb.ExplainRequest{Operation: first}); x.GetVerdict() != factAdmission || x.GetState() != "pending" || x.GetPool() != "below" {
		t.Errorf("with room: %v", x)
	}
	s.must(&commandpb.AdvanceOperation{OperationId: first, Term: 1, From: "pending", To: "materializing", Trees: []string{"default"}})
	if x := s.explain(&apipb.ExplainRequest{Operation: first}); x.GetVerdict() != factPreparing {
		t.Errorf("being materialized: %v", x)
	}
	second, third := s.pending("below"), s.pending("below")
	x := s.explain(&apipb.ExplainRequest{Operation: third})
	limit := x.GetFacts()[0]
	if x.GetVerdict() != factRunningLimit || limit.GetPool() != "top" || limit.GetCount() != 1 || limit.GetOf() != 1 || limit.GetSetting() != "max_running_operation_count" ||
		!strings.Contains(x.GetText(), `pool "top", above pool "below", runs 1 of at most 1 operations`) {
		t.Errorf("an ancestor is full: %v", x)
	}
	if place := factOf(t, x, factPlaceInPool); place.GetCount() != 2 {
		t.Errorf("its place is %v, behind %s", place, second)
	}
	options, err := structpb.NewStruct(map[string]any{"max_running_operation_count": 1.0})
	if err != nil {
		t.Fatal(err)
	}
	s.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Set{Set: &statepb.Pool{Name: "below", Parent: "top", Options: options}}}}})
	if x := s.explain(&apipb.ExplainRequest{Operation: third}); x.GetVerdict() != factRunningLimit || x.GetFacts()[0].GetPool() != "below" {
		t.Errorf("its own pool is full: %v", x)
	}
	// Of three at most, the ancestor has three.
	pool := s.explain(&apipb.ExplainRequest{Pool: "below"})
	if f := factOf(t, pool, factOperationLimit); f.GetPool() != "top" || f.GetSetting() != "max_operation_count" || f.GetCount() != 3 {
		t.Errorf("the pool: %v", pool)
	}
	factOf(t, pool, factNoScheduler)
	s.must(&commandpb.AbortOperation{OperationId: third, User: "ann", Reason: "enough"})
	if x := s.explain(&apipb.ExplainRequest{Operation: third}); x.GetVerdict() != factFinishing {
		t.Errorf("being aborted: %v", x)
	}
	s.must(&commandpb.AdvanceOperation{OperationId: third, Term: 1, From: "aborting", To: "aborted"})
	if x := s.explain(&apipb.ExplainRequest{Operation: third}); x.GetVerdict() != factEnded || x.GetText() != `it was aborted: operation aborted by user "ann": enough` {
		t.Errorf("aborted: %v", x)
	}
}

func TestExplainByTheScheduler(t *testing.T) {
	s := newSite(t)
	at := func(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }
	id := s.run(3, "j1")
	if x := s.explain(&apipb.ExplainRequest{Operation: id}); x.GetVerdict() != factNoScheduler {
		t.Errorf("without a leader: %v", x)
	}
	s.view.Store(&actorpb.SchedulerView{})
	if x := s.explain(&apipb.ExplainRequest{Operation: id}); x.GetVerdict() != factNoScheduler || !strings.Contains(x.GetText(), "does not know it yet") {
		t.Errorf("by a leader that has just taken over: %v", x)
	}
	s.view.Store(&actorpb.SchedulerView{Explanations: []*explainpb.Explanation{{
		Tree: "default", Facts: []*explainpb.Fact{{Code: "waiting_for_turn", Text: "later"}, {Code: "nodes", Text: "many"}}, Position: 3, Waiting: 7, Verdict: "waiting_for_turn",
		EstimatedStart: at(60), EstimatedEarliest: at(50), EstimatedLatest: at(70), EstimatedBy: "jobs_that_end",
	}}})
	x := s.explain(&apipb.ExplainRequest{Operation: id})
	if x.GetVerdict() != "waiting_for_turn" || x.GetText() != "later" || x.GetPosition() != 3 || x.GetWaiting() != 7 {
		t.Errorf("got %v", x)
	}
	if !proto.Equal(x.GetEstimatedStart(), at(60)) || !proto.Equal(x.GetEstimatedEarliest(), at(50)) || !proto.Equal(x.GetEstimatedLatest(), at(70)) || x.GetEstimatedBy() != "jobs_that_end" {
		t.Errorf("it starts %v, from %v to %v, by %s", x.GetEstimatedStart(), x.GetEstimatedEarliest(), x.GetEstimatedLatest(), x.GetEstimatedBy())
	}
	factOf(t, x, factLastMoved)
	s.must(&commandpb.SuspendOperation{OperationId: id, User: "ann"})
	if x := s.explain(&apipb.ExplainRequest{Operation: id}); x.GetVerdict() != factSuspended {
		t.Errorf("suspended: %v", x)
	}
}

func TestExplainEndedJobs(t *testing.T) {
	for want, job := range map[string]*apipb.Job{
		"it failed at 2026-01-01T00:00:00Z with exit code 3: its cookie is rerun if the operation continues": {State: "failed", ExitCode: 3},
		"it failed at 2026-01-01T00:00:00Z: its cookie is rerun if the operation continues":                  {State: "failed", ExitCode: -1, Failures: 1},
		"it failed at 2026-01-01T00:00:00Z: its cookie is given up (max_attempts 2)": {
			State: "failed", ExitCode: -1, Failures: 2, MaxAttempts: 2, GivenUp: true,
		},
		"it completed at 2026-01-01T00:00:00Z":                                        {State: "completed"},
		"it completed at 2026-01-01T00:00:00Z, after an interruption, and runs again": {State: "completed", Rerun: true},
	} {
		job.FinishTime = timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		if f := verdictOfJob(job); f.GetText() != want {
			t.Errorf("%v: %q, want %q", job, f.GetText(), want)
		}
	}
}

func TestExplainJobs(t *testing.T) {
	s := newSite(t)
	id := s.run(5, "stays", "leaves", "fails", "asked")
	order := &statepb.StopOrder{
		Message: "because", GraceMillis: 60_000, Preemption: "aggressive_preemption", Time: timestamppb.New(begin),
		PreemptedFor: &statepb.Beneficiary{OperationId: id, Task: "t", Resources: &statepb.Resources{UserSlots: 1}},
	}
	s.must(
		&commandpb.PreemptAllocations{Term: 1, Preemptions: []*commandpb.Preemption{{JobId: "leaves", Order: order}}},
		&commandpb.StopJobs{OperationId: id, JobIds: []string{"asked"}, Order: &statepb.StopOrder{Reason: "user_request", Message: "enough", Time: timestamppb.New(begin)}},
	)
	s.finish(id, "fails", "failed")
	for job, want := range map[string]string{"stays": factJobWaiting, "leaves": factJobPreempted, "fails": factJobFailed, "asked": factJobStopping} {
		if x := s.explain(&apipb.ExplainRequest{Job: job}); x.GetVerdict() != want || x.GetSubject() != "job" || x.GetPool() != "default" || x.GetTree() != "default" {
			t.Errorf("%s: got %v, want %s", job, x, want)
		}
	}
	x := s.explain(&apipb.ExplainRequest{Job: "leaves"})
	if f := factOf(t, x, factBeneficiary); f.GetOperation() != id || f.GetTask() != "t" {
		t.Errorf("for whom: %v", f)
	}
	if f := factOf(t, x, factReason); !strings.HasPrefix(f.GetText(), "because") {
		t.Errorf("why: %v", f)
	}
	s.must(&commandpb.FinishJobs{OperationId: id, Epoch: 1, Time: timestamppb.New(time.Now().Add(time.Hour)), Jobs: []*statepb.FinishedJob{{JobId: "leaves", State: "aborted", AbortReason: "preemption", Stop: order}}})
	x = s.explain(&apipb.ExplainRequest{Job: "leaves"})
	if f := factOf(t, x, factJobPreempted); x.GetVerdict() != factJobAborted || f.GetSetting() != "aggressive_preemption" {
		t.Errorf("gone: %v", x)
	}
	if f := factOf(t, x, factBeneficiary); strings.Contains(f.GetText(), "is held") {
		t.Errorf("a job that has gone: %s", f.GetText())
	}
	ledger := s.get("PoolService/Ledger", `{}`)
	want(t, ledger, "aggressive_preemption", "waste", 0, "cause")
	want(t, ledger, "default", "waste", 0, "pool")
	if seconds, ok := at(t, ledger, "waste", 0, "cpu_seconds").(float64); !ok || seconds <= 0 {
		t.Errorf("the ledger has %v", ledger)
	}
	want(t, s.get("OperationService/Get", `{"operation": "`+id+`"}`), "aggressive_preemption", "operation", "waste", 0, "cause")
	if got := s.post("PoolService/Ledger", `{"pool": "none"}`); got.status != 404 {
		t.Errorf("the ledger of no pool: %d %s", got.status, got.raw)
	}
}

// TestExplainSaysWhoWasAsked: of a job that was killed at once, that never ran, or that was let
// go when it had saved its state, it is not said that it has not left in time.
func TestExplainSaysWhoWasAsked(t *testing.T) {
	asked := &statepb.StopOrder{Interruption: statepb.InterruptedByPreemption, GraceMillis: 15_000, Preemption: "preemption", Reason: "preemption", Time: timestamppb.New(begin)}
	killed := &statepb.StopOrder{Preemption: "preemption", Reason: "preemption", Time: timestamppb.New(begin)}
	held := proto.CloneOf(asked)
	held.HeldUntil = timestamppb.New(begin.Add(7500 * time.Millisecond))
	drained := &statepb.StopOrder{Interruption: statepb.InterruptedByDrain, GraceMillis: 15_000, Reason: "interruption_timeout", Time: timestamppb.New(begin)}
	for name, test := range map[string]struct {
		job  *statepb.FinishedJob
		want string
	}{
		"it was asked":               {&statepb.FinishedJob{Pid: 7, AbortReason: "preemption", Stop: asked}, "it was preempted but did not stop in time (preemption)"},
		"it was killed at once":      {&statepb.FinishedJob{Pid: 7, AbortReason: "preemption", Stop: killed}, "it was preempted (preemption)"},
		"it was not told yet":        {&statepb.FinishedJob{Pid: 7, AbortReason: "preemption", Stop: held}, "it was preempted (preemption)"},
		"it never ran":               {&statepb.FinishedJob{AbortReason: "preemption", Stop: asked}, "it was preempted (preemption)"},
		"it had saved its state":     {&statepb.FinishedJob{Pid: 7, AbortReason: "preemption", Stop: asked, Acknowledged: true}, "it was preempted (preemption); it had reported its state as saved"},
		"nothing is known":           {&statepb.FinishedJob{Pid: 7, AbortReason: "preemption"}, "it was preempted (preemption)"},
		"its node was to be empty":   {&statepb.FinishedJob{Pid: 7, AbortReason: "interruption_timeout", Stop: drained}, "it was asked to stop but did not stop in time (interruption_timeout)"},
		"the same before it has run": {&statepb.FinishedJob{AbortReason: "interruption_timeout", Stop: drained}, "it had to stop (interruption_timeout)"},
		"another reason":             {&statepb.FinishedJob{Pid: 7, AbortReason: "user_request", Stop: asked}, "a user requested it (user_request)"},
	} {
		t.Run(name, func(t *testing.T) {
			test.job.State, test.job.FinishTime = "aborted", timestamppb.New(begin.Add(time.Minute))
			got := verdictOfJob(&apipb.Job{
				State: test.job.GetState(), AbortReason: test.job.GetAbortReason(), FinishTime: test.job.GetFinishTime(), Pid: test.job.GetPid(),
				Interruption: interruptionOf(test.job.GetStop()), Acknowledged: test.job.GetAcknowledged(),
			}).GetText()
			if _, why, _ := strings.Cut(got, "Z: "); why != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestExplainNothing(t *testing.T) {
	s := newSite(t)
	c := newClient(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for name, test := range map[string]struct {
		m    *apipb.ExplainRequest
		want string
	}{
		"two at once":       {&apipb.ExplainRequest{Operation: "a", Job: "b"}, apipb.CodeInvalidArgument},
		"nothing":           {&apipb.ExplainRequest{}, apipb.CodeInvalidArgument},
		"an operation gone": {&apipb.ExplainRequest{Operation: "none"}, "unknown_operation"},
		"a job gone":        {&apipb.ExplainRequest{Job: "none"}, apipb.CodeNoSuchJob},
		"a pool gone":       {&apipb.ExplainRequest{Pool: "none"}, "unknown_pool"},
		"a tree gone":       {&apipb.ExplainRequest{Pool: "default", Tree: "none"}, "unknown_tree"},
	} {
		_, err := c.Explain(ctx, test.m)
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

// TestExplainWhatIsEnding says how long an operation may take to end.
func TestExplainWhatIsEnding(t *testing.T) {
	asked := timestamppb.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for name, test := range map[string]struct {
		stop *statepb.StopOrder
		jobs int
		want string
	}{
		"its jobs are killed":         {nil, 2, "it is aborting, waiting for its last jobs: 2"},
		"its jobs are killed by time": {&statepb.StopOrder{Time: asked}, 2, "it is aborting, waiting for its last jobs: 2"},
		"its jobs were asked":         {&statepb.StopOrder{Time: asked, GraceMillis: 300_000}, 1, "it is aborting, waiting for its last jobs: 1, which were asked to stop and have until 2026-03-01T12:05:00Z"},
		"its jobs have gone":          {&statepb.StopOrder{Time: asked, GraceMillis: 300_000}, 0, "it is aborting, waiting for its last jobs: 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := finishingText(&statepb.Operation{State: "aborting", Stop: test.stop}, test.jobs); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestExplainPoolCountsThoseThatWait has operations that do not run yet, and what the
// scheduler says of those that do.
func TestExplainPoolCountsThoseThatWait(t *testing.T) {
	s := newSite(t)
	s.pools(map[string][2]any{"top": {"", 1.0}, "below": {"top", 2.0}})
	first := s.pending("below")
	s.must(&commandpb.AdvanceOperation{OperationId: first, Term: 1, From: "pending", To: "materializing", Trees: []string{"default"}})
	second := s.pending("below")
	s.pending("below")
	s.view.Store(&actorpb.SchedulerView{Explanations: []*explainpb.Explanation{{
		Tree: "default", Waits: []*explainpb.Wait{{Verdict: "waiting_for_turn", Operations: 5, Jobs: 9, First: "op", Text: "later"}},
	}}})
	for pool, want := range map[string]string{
		"top": "waiting_for_turn 5 op, running_limit_reached 2 " + second + ", preparing 1 " + first, "below": "waiting_for_turn 5 op, running_limit_reached 2 " + second + ", preparing 1 " + first,
		"<Root>": "waiting_for_turn 5 op, running_limit_reached 2 " + second + ", preparing 1 " + first, "default": "waiting_for_turn 5 op",
	} {
		var got []string
		for _, w := range s.explain(&apipb.ExplainRequest{Pool: pool}).GetWaits() {
			if w.GetText() == "" {
				t.Errorf("pool %s: nothing is said of %s", pool, w.GetVerdict())
			}
			got = append(got, fmt.Sprintf("%s %d %s", w.GetVerdict(), w.GetOperations(), w.GetFirst()))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("pool %s: got %v, want %s", pool, got, want)
		}
	}
	// A pool of another tree is looked for there.
	filter := func(value string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"nodes_filter": structpb.NewStringValue(value)}}
	}
	s.must(
		&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Options{Options: filter("!gpu")}}}},
		&commandpb.CreateTree{Tree: "gpu", Options: filter("gpu")},
		&commandpb.EditTree{Tree: "gpu", Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "there"}}}}},
	)
	if got := s.post("ExplainService/Explain", `{"pool": "there"}`); got.status != 404 || !strings.Contains(got.raw, "--tree gpu") {
		t.Errorf("a pool of another tree: %d %s", got.status, got.raw)
	}
	s.explain(&apipb.ExplainRequest{Pool: "there", Tree: "gpu"})
}

// TestExplainIsRefusedWhenTooManyAsk: it is no answer that the scheduler gave none.
func TestExplainIsRefusedWhenTooManyAsk(t *testing.T) {
	s := newSite(t)
	id := s.run(3, "j1")
	s.asked.Store(true)
	for _, of := range []string{`{"operation": "` + id + `"}`, `{"pool": "default"}`, `{"job": "j1"}`} {
		if got := s.post("ExplainService/Explain", of); got.status != 429 || !strings.Contains(got.raw, "too many ask") || got.header.Get(apipb.HeaderRetry) == "" {
			t.Errorf("%s: got %d %s", of, got.status, got.raw)
		}
	}
}

// TestExplainMemoryThatIsReserved says what jobs need of memory where there is too little.
func TestExplainMemoryThatIsReserved(t *testing.T) {
	op := &statepb.Operation{
		Spec: &statepb.OperationSpec{Tasks: []*statepb.TaskSpec{{Name: "t", MemoryLimit: 4 << 30}, {Name: "u", MemoryLimit: 1 << 30}}},
		Tasks: []*statepb.Task{
			{Name: "t", Memory: &statepb.TaskMemory{SampleCount: 7, Reserve: &statepb.JobReserve{User: 1 << 30, Proxy: 16 << 20}}},
			{Name: "u", Memory: &statepb.TaskMemory{Reserve: &statepb.JobReserve{User: 1 << 29}}},
		},
	}
	task := func(name string, nodes *explainpb.Nodes) *explainpb.Task {
		return &explainpb.Task{Name: name, Nodes: nodes}
	}
	short := map[string]int32{"memory": 2}
	for name, test := range map[string]struct {
		tasks []*explainpb.Task
		want  string
	}{
		"too little is free":   {[]*explainpb.Task{task("t", &explainpb.Nodes{LackingBy: short}), task("t", &explainpb.Nodes{LackingBy: short})}, "1GiB for its processes, 25% of its memory_limit of 4GiB (learned from 7 jobs), and 16MiB for its job proxy"},
		"no node has so much":  {[]*explainpb.Task{task("u", &explainpb.Nodes{TooSmallBy: short})}, "512MiB for its processes, 50% of its memory_limit of 1GiB (from its settings: nothing learned yet), and 0B for its job proxy"},
		"it is not for memory": {[]*explainpb.Task{task("t", &explainpb.Nodes{LackingBy: map[string]int32{"cpu": 2}})}, ""},
	} {
		x := &explainpb.Explanation{Tasks: test.tasks}
		addReserves(x, reserveFacts(op))
		if test.want == "" != (len(x.GetFacts()) == 0) || len(x.GetFacts()) > 1 {
			t.Errorf("%s: got %v", name, x.GetFacts())
		}
		if test.want != "" && !strings.HasSuffix(x.GetText(), test.want) {
			t.Errorf("%s: got %q", name, x.GetText())
		}
	}
}

// TestExplanationsAreCut (T4): of an operation with very many tasks and facts an explanation has those
// that fit, with the verdict, and counts the rest.
func TestExplanationsAreCut(t *testing.T) {
	s := newSite(t)
	id := s.run(3, "j1")
	said := &explainpb.Explanation{Tree: "default", Subject: "operation", Id: id}
	const many = 20_000
	for i := range many {
		said.Facts = append(said.Facts, &explainpb.Fact{Code: fmt.Sprint("code", i), Text: strings.Repeat("f", 90)})
		said.Tasks = append(said.Tasks, &explainpb.Task{Name: fmt.Sprint("task", i), Verdict: "no_room", Pending: 1, JobResources: &explainpb.Resources{UserSlots: 1, Memory: 1 << 30}})
	}
	s.view.Store(&actorpb.SchedulerView{Explanations: []*explainpb.Explanation{said}})
	x := s.explain(&apipb.ExplainRequest{Operation: id})
	if facts, tasks := len(x.GetFacts()), len(x.GetTasks()); facts < 1000 || tasks < 1000 || tasks+int(x.GetTasksLeftOut()) != many || facts+int(x.GetFactsLeftOut()) < many {
		t.Errorf("%d facts and %d more, %d tasks and %d more", facts, x.GetFactsLeftOut(), tasks, x.GetTasksLeftOut())
	}
	if size := proto.Size(x); size > 1<<20+4096 || x.GetVerdict() == "" || x.GetFacts()[0].GetCode() != x.GetVerdict() {
		t.Errorf("the answer has %d bytes, its verdict is %q", size, x.GetVerdict())
	}
	huge := &explainpb.Explanation{Facts: []*explainpb.Fact{{Text: strings.Repeat("x", 2<<20)}, {}}}
	if explainpb.Bound(huge); len(huge.GetFacts()) != 1 || huge.GetFactsLeftOut() != 1 {
		t.Errorf("%d facts and %d more", len(huge.GetFacts()), huge.GetFactsLeftOut())
	}
}
