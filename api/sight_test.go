package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/eventpb"
	"weir/messages/explainpb"
	"weir/messages/statepb"
)

// TestJobsOfOthers (T1): jobs of operations that one may not read are counted, wherever lists show
// jobs; their ids, tasks and titles are not shown.
func TestJobsOfOthers(t *testing.T) {
	s, operation := rightsSite(t)
	for _, subject := range subjectsOfTest {
		reads := slices.Contains([]string{"user/ann", "user/reader", "user/member", "operator/oda"}, subject)
		node := s.get("NodeService/Get", `{"node": "n1"}`, roleHeader, subject)
		jobs, _ := node["jobs"].([]any)
		if hidden := node["hidden"] == "1"; (len(jobs) == 1) != reads || hidden == reads {
			t.Errorf("as %s: %v", subject, node)
		}
		want(t, node, "1", "node", "jobs")
		of := at(t, s.get("AttributeService/Get", `{"path": "scheduler/pool_trees/default/nodes/n1"}`, roleHeader, subject), "value")
		want(t, of, 1.0, "job_count")
		if shown := len(at(t, of, "jobs").([]any)); (shown == 1) != reads {
			t.Errorf("as %s the attributes of the node show %d jobs", subject, shown)
		}
		events := s.answered("EventService/Read", `{"kinds": ["job_*"]}`, subject)
		if !strings.Contains(events, operation) || strings.Contains(events, `"j1"`) != reads {
			t.Errorf("as %s events are %s", subject, events)
		}
	}
}

// TestExplanationsOfOthers (T1): who may not read an operation is told why it waits, and no names of its
// tasks or jobs.
func TestExplanationsOfOthers(t *testing.T) {
	s, operation := rightsSite(t)
	s.view.Store(&actorpb.SchedulerView{Explanations: []*explainpb.Explanation{{
		Tree: "default", Subject: "operation", Id: operation,
		Facts: []*explainpb.Fact{{Code: "likely_victims", Task: "hush", Job: "j1", Operation: operation, Text: "job j1 leaves for task hush"}},
		Tasks: []*explainpb.Task{{Name: "hush", Pending: 1}}, LikelyVictims: []*explainpb.Victim{{Job: "j1", Operation: operation, Node: "n1"}},
	}}})
	// Those who may see less ask first.
	for _, subject := range []string{"user/manager", "user/stranger", "user/ann", "user/reader"} {
		shows := subject == "user/ann" || subject == "user/reader"
		got := s.get("ExplainService/Explain", `{"operation": "op-1"}`, roleHeader, subject)
		x := at(t, got, "explanations", 0)
		if !shows {
			want(t, x, "a job leaves for a task", "facts", 0, "text")
			want(t, x, "1", "tasks", 0, "name")
			want(t, x, "n1", "likely_victims", 0, "node")
		}
		raw := s.post("ExplainService/Explain", `{"operation": "op-1"}`, roleHeader, subject).raw
		if strings.Contains(raw, "hush") != shows || strings.Contains(raw, "j1") != shows {
			t.Errorf("as %s: %s", subject, raw)
		}
	}
}

// TestWhatOthersWaitFor (T1): everyone sees why an operation waits, but not the names of its tasks, nor what its
// memory_limit is.
func TestWhatOthersWaitFor(t *testing.T) {
	s, id := rightsSite(t)
	s.must(&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
		Id: "n1", Incarnation: 2, Version: "v2", Resources: &statepb.Resources{UserSlots: 10, CpuHundredths: 1000, Memory: 1 << 19},
	}})
	s.view.Store(&actorpb.SchedulerView{Explanations: []*explainpb.Explanation{{
		Tree: "default", Subject: "pool", Id: "ads", Waits: []*explainpb.Wait{{Verdict: "no_node", Operations: 1, First: id, Text: "a job of task t waits"}},
	}}})
	named := `{"operation": "` + id + `"}`
	for subject, shows := range map[string]bool{"user/ann": true, "user/reader": true, "user/manager": false, "user/stranger": false, "operator/oda": true} {
		of := at(t, s.get("OperationService/Get", named, roleHeader, subject), "operation", "pending_reason").(string)
		if !strings.Contains(of, "no node is big enough") || strings.Contains(of, "task t ") != shows || strings.Contains(of, "memory_limit") && !shows {
			t.Errorf("%s is told of the operation: %s", subject, of)
		}
		wanted := "a job of a task waits"
		if shows {
			wanted = "a job of task t waits"
		}
		of = fmt.Sprint(at(t, s.get("ExplainService/Explain", `{"pool": "ads"}`, roleHeader, subject), "explanations", 0, "waits"))
		if !strings.Contains(of, wanted) {
			t.Errorf("%s is told of the pool: %s, want %s", subject, of, wanted)
		}
		of = fmt.Sprint(at(t, s.get("ClusterService/Status", "{}", roleHeader, subject), "problems"))
		if !strings.Contains(of, "no node is big enough") || strings.Contains(of, "task t ") {
			t.Errorf("%s is told of the cluster: %s", subject, of)
		}
	}
}

// TestEventsOfWhatIsGone (T1): an operation and its tree may be gone, and its events are still those of
// an operation that one may not read, also if one may read what has the name of its pool now. Removed memory
// profiles are those of their users.
func TestEventsOfWhatIsGone(t *testing.T) {
	s, _ := rightsSite(t)
	for what, test := range map[string]struct {
		event *eventpb.Event
		sees  string
	}{
		"a tree that is gone":         {&eventpb.Event{Kind: "operation_ended", Operation: "op-0", Tree: "removed", Pool: "ads", Message: "secret"}, "oda"},
		"a pool of the name":          {&eventpb.Event{Kind: "operation_ended", Operation: "op-0", Tree: "default", Pool: "ads", Message: "secret"}, "oda"},
		"a profile of somebody":       {&eventpb.Event{Kind: "memory_profile_removed", Attributes: map[string]string{"profile": "ann:secret"}}, "oda ann"},
		"a profile without an owner":  {&eventpb.Event{Kind: "memory_profile_removed", Attributes: map[string]string{"profile": "secret"}}, "oda"},
		"a profile of a like-named":   {&eventpb.Event{Kind: "memory_profile_removed", Attributes: map[string]string{"profile": "reader2:secret"}}, "oda"},
		"something that is no secret": {&eventpb.Event{Kind: "node_online", Node: "n1"}, "oda ann reader stranger"},
	} {
		for _, user := range []string{"oda", "ann", "reader", "stranger"} {
			role := identity.User
			if user == "oda" {
				role = identity.Operator
			}
			f := &eventFlow{server: s.handler.server, asker: &asking{caller: caller{Identity: identity.Identity{Cluster: "c1", Role: role, Name: user}}}}
			shown, hidden := f.cut([]*eventpb.Event{test.event})
			wanted := slices.Contains(strings.Fields(test.sees), user)
			if (hidden == 0) != wanted || strings.Contains(fmt.Sprint(shown), "secret") && !wanted {
				t.Errorf("of %s %s sees %v (%d hidden), want all of it: %t", what, user, shown, hidden, wanted)
			}
		}
	}
}

// TestRevokedRightEndsStream (T1): a right that is taken away ends an open stream with the refusal,
// without waiting for news.
func TestRevokedRightEndsStream(t *testing.T) {
	s, operation := rightsSite(t)
	s.see(draining("1", false))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req := connect.NewRequest(&apipb.WatchInstancesRequest{Operation: operation})
	req.Header().Set(roleHeader, "user/reader")
	stream, err := watcher(s).WatchInstances(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	s.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Set{Set: &statepb.Pool{Name: "ads", Parent: "<Root>"}}}}})
	if stream.Receive() {
		t.Errorf("after the revocation it says %v", stream.Msg())
	}
	if err := stream.Err(); connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "needs the right read") {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestRevokedRightEndsWatch (T1): a watch of an operation ends with the refusal when the right to read it is taken
// away, though nothing happens to the operation. One who never had it goes on to see what everyone sees.
func TestRevokedRightEndsWatch(t *testing.T) {
	s, operation := rightsSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch := func(who string) *connect.ServerStreamForClient[apipb.WatchOperationResponse] {
		req := connect.NewRequest(&apipb.WatchOperationRequest{Operation: operation})
		req.Header().Set(roleHeader, who)
		stream, err := watcher(s).Watch(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			// It has ended with an error, or is cut here.
			_ = stream.Close()
		})
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		return stream
	}
	reader, stranger := watch("user/reader"), watch("user/stranger")
	s.must(&commandpb.EditTree{Edits: []*commandpb.TreeEdit{{Edit: &commandpb.TreeEdit_Set{Set: &statepb.Pool{Name: "ads", Parent: "<Root>"}}}}})
	if reader.Receive() {
		t.Errorf("after the revocation it says %v", reader.Msg())
	}
	if err := reader.Err(); connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "needs the right read") {
		t.Errorf("the stream ends with %v", err)
	}
	s.must(&commandpb.SuspendOperation{OperationId: operation, User: "oda"})
	if !stranger.Receive() || !stranger.Msg().GetOperation().GetSuspended() {
		t.Errorf("the stranger sees %v, %v", stranger.Msg(), stranger.Err())
	}
}

// TestLaggingReplicaAsksAgain (T1): a right that was given at another replica counts at one that has not
// heard of it yet.
func TestLaggingReplicaAsksAgain(t *testing.T) {
	s, _ := rightsSite(t)
	behind := make(chan struct{})
	s.hold.Store(&behind)
	answered := make(chan reply, 1)
	go func() {
		answered <- s.post("OperationService/Start", startBody(1, `, "pool": "ads"`), roleHeader, "user/stranger")
	}()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.held.Load() == 0 {
		select {
		case got := <-answered:
			t.Fatalf("answered without a look at the other replicas: %d %s", got.status, got.raw)
		case <-deadline:
			t.Fatal("the call does not arrive")
		case <-tick.C:
		}
	}
	s.must(&commandpb.EditGroup{Group: "crew", Add: []string{"stranger"}})
	s.hold.Store(nil)
	close(behind)
	if got := <-answered; got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.raw)
	}
}

// TestGatewayOwnsNothingOfOperators (T1): a gateway's user with the name of an operator does not own what
// this one started.
func TestGatewayOwnsNothingOfOperators(t *testing.T) {
	s, _ := rightsSite(t)
	operation := at(t, s.get("OperationService/Start", startBody(1, `, "pool": "ads", "title": "secret"`)), "operation_id").(string)
	of := fmt.Sprintf(`{"operation": %q}`, operation)
	as := []string{roleHeader, "gateway/web", apipb.HeaderOnBehalfOf, "oda"}
	if got := s.post("OperationService/Abort", of, as...); got.status != http.StatusForbidden {
		t.Errorf("abort: %d %s", got.status, got.raw)
	}
	if got := s.post("OperationService/Get", of, as...); got.status != http.StatusOK || strings.Contains(got.raw, "secret") {
		t.Errorf("get: %d %s", got.status, got.raw)
	}
	s.get("OperationService/Abort", of)
}

// TestGroupsThatOperationsName (T1): a group is removed against the acl of an operation only by force.
func TestGroupsThatOperationsName(t *testing.T) {
	s, _ := rightsSite(t)
	s.get("AccessService/EditGroup", `{"group": "helpers", "add": ["x"]}`)
	s.get("OperationService/Start", startBody(1, `, "pool": "ads", "acl": {"read": ["group:helpers"]}`), roleHeader, "user/ann")
	if got := s.post("AccessService/EditGroup", `{"group": "helpers", "delete": true}`); !strings.Contains(got.raw, "--force") {
		t.Errorf("%d %s", got.status, got.raw)
	}
	s.get("AccessService/EditGroup", `{"group": "helpers", "delete": true, "force": true}`)
}

// TestExplainPoolNamesMissingRights (T1): a user is told each right on the pool that the user lacks, and
// who has it.
func TestExplainPoolNamesMissingRights(t *testing.T) {
	s, _ := rightsSite(t)
	for subject, wanted := range map[string]string{
		"user/stranger": "may_not_use may_not_read may_not_manage may_not_administer", "user/ann": "may_not_read may_not_manage may_not_administer",
		"user/reader": "may_not_use may_not_manage may_not_administer", "user/member": "", "operator/oda": "",
	} {
		var codes []string
		facts, _ := at(t, s.get("ExplainService/Explain", `{"pool": "ads"}`, roleHeader, subject), "explanations", 0, "facts").([]any)
		for _, f := range facts {
			if code := at(t, f, "code").(string); strings.HasPrefix(code, "may_not") {
				codes = append(codes, code)
				if text := at(t, f, "text").(string); !strings.Contains(text, "held by group:crew") || !strings.Contains(text, "weir pool acl 'ads'") {
					t.Errorf("%s: %s", subject, text)
				}
			}
		}
		if got := strings.Join(codes, " "); got != wanted {
			t.Errorf("%s: %q, want %q", subject, got, wanted)
		}
	}
}
