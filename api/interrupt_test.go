package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// service starts an operation whose jobs can be asked to leave.
func (s *site) service(jobs ...string) (operation string) {
	s.t.Helper()
	return s.runAs(`{"spec": {"tasks": {"t": {"job_count": 5, "command": ["serve"], "interruption_signal": "SIGTERM"}}}}`, 5, jobs...)
}

// momentIn reads a time of an answer.
func momentIn(t *testing.T, fields any, path ...any) time.Time {
	t.Helper()
	got, err := time.Parse(time.RFC3339Nano, at(t, fields, path...).(string))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestInterruptJob(t *testing.T) {
	s := newSite(t)
	s.service("j1", "j2")
	// interrupt returns the deadline, which is to be this long after a moment of the call.
	interrupt := func(body string, in time.Duration) time.Time {
		t.Helper()
		began := time.Now()
		got := momentIn(t, s.get("JobService/Interrupt", body), "deadline")
		if got.Before(began.Add(in).Truncate(time.Millisecond)) || got.After(time.Now().Add(in)) {
			t.Errorf("deadline %s, want it %s after a call from %s to %s", got, in, began, time.Now())
		}
		return got
	}
	first := interrupt(`{"job_id": "j1", "timeout_millis": "60000", "reason": "new version"}`, time.Minute)
	job := at(t, s.get("JobService/Get", `{"job_id": "j1"}`), "job")
	want(t, job, "interruption_timeout", "stopping")
	want(t, job, "user_request", "interruption", "reason")
	want(t, job, "interruption_timeout", "interruption", "abort_reason")
	want(t, job, "interrupted by user oda: new version", "interruption", "message")
	want(t, job, "60000", "interruption", "timeout_millis")
	if got := momentIn(t, job, "interruption", "deadline"); !got.Equal(first) {
		t.Errorf("deadline %s, want %s", got, first)
	}
	// The earlier of two deadlines holds; without a time it is what preemption leaves.
	if got := momentIn(t, s.get("JobService/Interrupt", `{"job_id": "j1", "timeout_millis": "600000"}`), "deadline"); !got.Equal(first) {
		t.Errorf("deadline %s after a later one, want %s", got, first)
	}
	interrupt(`{"job_id": "j1"}`, 15*time.Second)
	s.get("PoolService/Edit", `{"edits": [{"change": {"name": "default", "options": {"allocation_preemption_timeout": "2m"}}}]}`)
	interrupt(`{"job_id": "j2"}`, 2*time.Minute) // As the pool says.
}

func TestInterruptionsThatCannotBe(t *testing.T) {
	s := newSite(t)
	service := s.service("j1", "ended")
	s.finish(service, "ended", "completed")
	s.run(1, "deaf")
	for name, test := range map[string]struct {
		method, body string
		wantStatus   int
		wantCode     string
		want         string
	}{
		"a job without a signal": {"JobService/Interrupt", `{"job_id": "deaf"}`, 400, "not_interruptible", "weir job abort"},
		"a job that has ended":   {"JobService/Interrupt", `{"job_id": "ended"}`, 400, "job_ended", "already completed"},
		"a job that never was":   {"JobService/Interrupt", `{"job_id": "none"}`, 404, "no_such_job", "not found"},
		"no job at all":          {"JobService/Interrupt", `{}`, 400, "invalid_argument", "id is needed"},
		"a negative time":        {"JobService/Interrupt", `{"job_id": "j1", "timeout_millis": "-1"}`, 400, "invalid_argument", "-1 ms"},
		"more than a year":       {"JobService/Interrupt", `{"job_id": "j1", "timeout_millis": "99999999999"}`, 400, "invalid_argument", "a year"},
		"an abort in the past":   {"OperationService/Abort", `{"operation": "` + service + `", "interrupt_timeout_millis": "-5"}`, 400, "invalid_argument", "-5 ms"},
		"a drain in the past":    {"NodeService/Drain", `{"node": "n1", "interrupt_timeout_millis": "-5"}`, 400, "invalid_argument", "-5 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.post(test.method, test.body)
			if got.status != test.wantStatus || got.header.Get(apipb.HeaderCode) != test.wantCode || !strings.Contains(got.raw, test.want) {
				t.Errorf("%d %s %s, want %d %s …%s…", got.status, got.header.Get(apipb.HeaderCode), got.raw, test.wantStatus, test.wantCode, test.want)
			}
		})
	}
	if job := s.get("JobService/Get", `{"job_id": "j1"}`); strings.Contains(strings.Join(keys(at(t, job, "job")), " "), "interruption") {
		t.Errorf("a refused interruption has left %v", job)
	}
	ends := func() { s.finish(service, "j1", "completed") }
	s.before.Store(&ends)
	if got := s.post("JobService/Interrupt", `{"job_id": "j1"}`); got.status != 400 || got.header.Get(apipb.HeaderCode) != "job_ended" {
		t.Errorf("a job that ends meanwhile: %d %s", got.status, got.raw)
	}
}

func keys(fields any) (names []string) {
	for name := range fields.(map[string]any) {
		names = append(names, name)
	}
	return names
}

func TestAbortAndDrainByInterruption(t *testing.T) {
	s := newSite(t)
	first, second := s.service("j1"), s.service("j2")
	s.get("OperationService/Abort", `{"operation": "`+first+`", "interrupt_timeout_millis": "60000"}`)
	want(t, s.get("OperationService/Get", `{"operation": "`+first+`"}`), "aborting", "operation", "state")
	s.get("NodeService/Drain", `{"node": "n1", "interrupt_timeout_millis": "30000", "reason": "new kernel"}`)
	for job, reason := range map[string]string{"j1": "operation_abort", "j2": "node_drain"} {
		want(t, s.get("JobService/Get", `{"job_id": "`+job+`"}`), reason, "job", "interruption", "reason")
	}
	// Both were asked, and one of them by both: the earlier deadline holds.
	if a, b := momentIn(t, s.get("JobService/Get", `{"job_id": "j1"}`), "job", "interruption", "deadline"),
		momentIn(t, s.get("JobService/Get", `{"job_id": "j2"}`), "job", "interruption", "deadline"); !a.Equal(b) {
		t.Errorf("deadlines %s and %s, want both at that of the drain", a, b)
	}
	want(t, s.get("OperationService/Get", `{"operation": "`+second+`"}`), "running", "operation", "state")
}

func TestPreemptedJobsAreCounted(t *testing.T) {
	s := newSite(t)
	greedy, hungry := s.service("j1", "j2", "j3", "j4"), s.service()
	preempt := func(job, kind, beneficiary string) *commandpb.Preemption {
		order := &statepb.StopOrder{Preemption: kind, GraceMillis: 60_000, Message: "beyond its share"}
		if beneficiary != "" {
			order.PreemptedFor = &statepb.Beneficiary{OperationId: beneficiary, Task: "t", Resources: &statepb.Resources{UserSlots: 1}}
		}
		return &commandpb.Preemption{JobId: job, Order: order}
	}
	s.must(&commandpb.PreemptAllocations{Term: 1, Time: timestamppb.New(time.Now()), Preemptions: []*commandpb.Preemption{
		preempt("j1", "preemption", hungry), preempt("j2", "preemption", hungry), preempt("j3", "graceful_preemption", ""),
	}})
	s.finish(greedy, "j1", "completed")
	got := at(t, s.get("OperationService/Get", `{"operation": "`+greedy+`"}`), "operation", "preempted")
	want(t, got, "graceful_preemption", 0, "kind")
	want(t, got, "1", 0, "leaving")
	want(t, got, "preemption", 1, "kind")
	want(t, got, hungry, 1, "for_operation")
	want(t, got, "1", 1, "leaving")
	want(t, got, "1", 1, "gone")
	want(t, s.get("OperationService/Get", `{"operation": "`+hungry+`"}`), "2", "operation", "preempted_others", "preemption")
	job := at(t, s.get("JobService/Get", `{"job_id": "j2"}`), "job", "interruption")
	want(t, job, "preemption", "reason")
	want(t, job, hungry, "preempted_for_operation")
	want(t, job, "t", "preempted_for_task")
	ended := at(t, s.get("JobService/Get", `{"job_id": "j1"}`), "job")
	want(t, ended, "completed", "state")
	want(t, ended, "preemption", "interruption", "preemption")
}

// draining is what a replica sees of one job.
func draining(version string, over bool) *actorpb.Instances {
	return &actorpb.Instances{Version: version, Over: over, Instances: []*actorpb.Instance{{
		JobId: "j1", Task: "t", Cookie: 3, Node: "n1", Host: "h1", Ports: []int32{21000, 21001}, State: actorpb.InstanceDraining, Reason: "preemption",
		Deadline: timestamppb.New(begin), StartTime: timestamppb.New(begin),
	}}}
}

func TestInstances(t *testing.T) {
	s := newSite(t)
	id := s.service("j1")
	s.see(draining("1", false))
	// It is told without a quorum, of an operation that is known here.
	s.quorum.Store(false)
	got := s.get("OperationService/Instances", `{"operation": "`+id+`"}`)
	want(t, got, id, "operation_id")
	for path, value := range map[string]any{"job_id": "j1", "task": "t", "cookie": 3.0, "node": "n1", "host": "h1", "state": "draining", "reason": "preemption"} {
		want(t, got, value, "instances", 0, path)
	}
	want(t, got, 21001.0, "instances", 0, "ports", 1)
	s.quorum.Store(true)
	if got := s.post("OperationService/Instances", `{"operation": "*none"}`); got.status != 404 || got.header.Get(apipb.HeaderCode) != "unknown_operation" {
		t.Errorf("instances of nobody: %d %s", got.status, got.raw)
	}
}

func TestWatchInstances(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.KeepAlive = 50 * time.Millisecond })
	id := s.service("j1")
	s.see(draining("1", false))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := watcher(s).WatchInstances(ctx, connect.NewRequest(&apipb.WatchInstancesRequest{Operation: id}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for range 3 {
		// The second and the third say that there is nothing new.
		if !stream.Receive() || len(stream.Msg().GetInstances()) != 1 || stream.Msg().GetOver() {
			t.Fatalf("got %v, %v, want one instance", stream.Msg(), stream.Err())
		}
	}
	s.see(draining("2", true))
	for !stream.Msg().GetOver() && stream.Receive() {
		if len(stream.Msg().GetInstances()) != 1 {
			t.Errorf("got %v, want one instance", stream.Msg())
		}
	}
	if !stream.Msg().GetOver() || stream.Receive() || stream.Err() != nil {
		t.Errorf("at last: %v, error %v; want the end", stream.Msg(), stream.Err())
	}
}

// TestWatchInstancesByChanges streams all of a thousand once, and then the one that changes.
func TestWatchInstancesByChanges(t *testing.T) {
	s := newSite(t)
	id := s.service("j1")
	see := func(version, state string, over bool) {
		seen := &actorpb.Instances{Version: version, Over: over}
		for i := range 1000 {
			one := &actorpb.Instance{JobId: fmt.Sprint("j", i), Task: "t", Cookie: int32(i), Node: "n1", Host: "h1", Ports: []int32{21000}, State: actorpb.InstanceLive}
			if i == 500 {
				one.State = state
			}
			seen.Instances = append(seen.Instances, one)
		}
		s.see(seen)
	}
	see("1", actorpb.InstanceLive, false)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := watcher(s).WatchInstances(ctx, connect.NewRequest(&apipb.WatchInstancesRequest{Operation: id, Changes: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() || len(stream.Msg().GetInstances()) != 1000 || stream.Msg().GetVersion() != "1" || stream.Msg().GetSince() != "" {
		t.Fatalf("got %.200v, %v, want all", stream.Msg(), stream.Err())
	}
	see("2", actorpb.InstanceDraining, false)
	if !stream.Receive() || len(stream.Msg().GetInstances()) != 1 || stream.Msg().GetInstances()[0].GetState() != "draining" ||
		stream.Msg().GetVersion() != "2" || stream.Msg().GetSince() != "1" || proto.Size(stream.Msg()) > 200 {
		t.Fatalf("got %.200v, %v, want one", stream.Msg(), stream.Err())
	}
	see("3", actorpb.InstanceDraining, true)
	if !stream.Receive() || len(stream.Msg().GetInstances()) != 0 || !stream.Msg().GetOver() || stream.Receive() || stream.Err() != nil {
		t.Errorf("got %.200v, %v, want the end", stream.Msg(), stream.Err())
	}
}

func TestInterruptionOfAJobThatLeavesAtOnce(t *testing.T) {
	s := newSite(t)
	id := s.service("j1")
	leaves := func() { s.finish(id, "j1", "completed") }
	s.after.Store(&leaves)
	deadline := momentIn(t, s.get("JobService/Interrupt", `{"job_id": "j1", "timeout_millis": "60000"}`), "deadline")
	if left := time.Until(deadline); left < 50*time.Second || left > time.Minute {
		t.Errorf("deadline %s, want a minute from the interruption", deadline)
	}
}
