package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestWhyThereIsNoOutput asks for the stdout of jobs in every state that have none.
func TestWhyThereIsNoOutput(t *testing.T) {
	absent := func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) {
		return nil, &actorpb.Refused{Code: actorpb.CodeNotFound}
	}
	silent := func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) { return &actorpb.OutputPart{End: true}, nil }
	unreachable := func(*actorpb.ReadOutput) (*actorpb.OutputPart, error) { return nil, errors.New("not connected") }
	finish := func(job *statepb.FinishedJob) func(string) []proto.Message {
		return func(operation string) []proto.Message {
			job.JobId = "j1"
			return []proto.Message{&commandpb.FinishJobs{OperationId: operation, Epoch: 1, Jobs: []*statepb.FinishedJob{job}}}
		}
	}
	// These two are made anew for each test: what is applied belongs to the state.
	unstarted := func() func(string) []proto.Message {
		return finish(&statepb.FinishedJob{
			State: "aborted", AbortReason: "get_spec_failed", Error: &statepb.Error{Message: "no file a"}, Statistics: &statepb.JobStatistics{},
		})
	}
	completed := func() func(string) []proto.Message {
		return finish(&statepb.FinishedJob{State: "completed", Pid: 42, Statistics: &statepb.JobStatistics{}})
	}
	lost := func(string) []proto.Message {
		return []proto.Message{
			&commandpb.AbortAllocations{Term: 1, Node: "n1", JobIds: []string{"j1"}, Reason: "node_offline"},
			&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1},
		}
	}
	offline := func(string) []proto.Message {
		return []proto.Message{&commandpb.SetNodeOffline{Term: 1, Node: "n1", Incarnation: 1}}
	}
	tests := map[string]struct {
		become func(operation string) []proto.Message
		output func(*actorpb.ReadOutput) (*actorpb.OutputPart, error)
		phase  string
		// wantCode is that of an error; empty: wantText is the note of an answer.
		wantCode, wantText string
	}{
		"it is prepared":             {nil, absent, "", "", `job j1 has not started yet: node "n1" is preparing it`},
		"it has begun, and is quiet": {nil, silent, "running", "", `job j1, which is running on node "n1", has written nothing to its stdout so far`},
		"it wrote nothing":           {completed(), silent, "", "", "job j1, which is completed, has written nothing to its stdout"},
		"its output was removed":     {completed(), absent, "", "output_gone", `node "n1" no longer has the output of job j1 (state: completed)`},
		"it never started":           {unstarted(), absent, "", "never_started", "job j1 has no output, it never started: it is aborted for get_spec_failed: no file a"},
		"it never started, of a node that is away": {
			func(op string) []proto.Message { return append(unstarted()(op), offline(op)...) }, unreachable, "",
			"never_started", "job j1 has no output, it never started: it is aborted for get_spec_failed: no file a",
		},
		"its command could not be started": {
			finish(&statepb.FinishedJob{State: "failed", Error: &statepb.Error{Message: "no such program"}, Statistics: &statepb.JobStatistics{}}), silent, "",
			"", "job j1 never started: it is failed: no such program",
		},
		"its node was lost and is back": {
			func(op string) []proto.Message { return lost(op)[:1] }, absent, "",
			"output_gone", `node "n1" has no output of job j1, which ended without confirmation that it had started: it is aborted for node_offline`,
		},
		"its node was lost": {lost, unreachable, "", "node_offline", `node "n1", which may have output of job j1, is offline: retry when it is back (the job is aborted for node_offline)`},
		"its node was removed": {
			func(op string) []proto.Message { return append(lost(op), &commandpb.RemoveNode{Node: "n1"}) }, unreachable, "",
			"output_gone", `node "n1", which had the output of job j1, was removed`,
		},
		"its node is offline":  {offline, unreachable, "", "node_offline", "retry when it is back (the job is waiting)"},
		"its node reconnects":  {completed(), unreachable, "", "unavailable", "not connected"},
		"its node has no word": {nil, unreachable, "", "unavailable", "not connected"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			operation := s.run(1, "j1")
			if test.become != nil {
				s.must(test.become(operation)...)
			}
			if test.phase != "" {
				s.live.Store(&actorpb.JobLive{Jobs: []*actorpb.HeldJob{{JobId: "j1", Phase: test.phase}}})
			}
			s.output = test.output
			body := `{"job_id": "j1", "stream": "stdout"}`
			if test.wantCode == "" {
				want(t, s.get("JobService/Output", body), test.wantText, "note")
				return
			}
			got := s.post("JobService/Output", body)
			if got.header.Get(apipb.HeaderCode) != test.wantCode || !strings.Contains(strings.ReplaceAll(got.raw, `\"`, `"`), test.wantText) {
				t.Errorf("got %s %s, want %s with %q", got.header.Get(apipb.HeaderCode), got.raw, test.wantCode, test.wantText)
			}
		})
	}
}

// TestOutputComesInParts (T5) asks for a large part of output: an answer has no more than its share, and says where to go on.
func TestOutputComesInParts(t *testing.T) {
	s := newSite(t)
	s.run(1, "j1")
	s.output = func(m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
		return &actorpb.OutputPart{Data: make([]byte, m.GetLimit()), NextOffset: m.GetOffset() + m.GetLimit()}, nil
	}
	for limit, wantNext := range map[string]string{"1048576": "131072", "0": "131072", "1000": "1000"} {
		want(t, s.get("JobService/Output", `{"job_id": "j1", "stream": "stdout", "limit": "`+limit+`"}`), wantNext, "next_offset")
	}
}

// TestPartsOfOutputGoSlowly (T5) has one user read many outputs at once: few of the reads are under way to the leader at
// a time, and another user's read and submission wait for none of them.
func TestPartsOfOutputGoSlowly(t *testing.T) {
	s := newSite(t)
	s.run(1, "j1")
	const greedy = 30
	asked, release := make(chan struct{}, greedy+1), make(chan struct{})
	s.output = func(m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
		if m.GetStream() == "stderr" {
			return &actorpb.OutputPart{}, nil
		}
		asked <- struct{}{}
		<-release
		return &actorpb.OutputPart{}, nil
	}
	replies := make(chan reply, greedy)
	for range greedy {
		go func() {
			replies <- s.post("JobService/Output", `{"job_id": "j1", "stream": "stdout"}`, roleHeader, "operator/mallory")
		}()
	}
	for range partPlaces / 2 {
		<-asked
	}
	eventually(t, func() bool { _, waiting := s.handler.door.parts.count(); return waiting == greedy-partPlaces/2 })
	for call, body := range map[string]string{
		"JobService/Output": `{"job_id": "j1", "stream": "stderr"}`, "OperationService/Start": `{"spec": {"tasks": {"t": {"job_count": 1, "command": ["true"], "memory_limit": "64MiB"}}}}`,
	} {
		if got := s.post(call, body, roleHeader, "operator/oda"); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", call, got.status, got.raw)
		}
	}
	if len(asked) > 0 {
		t.Errorf("%d more reads of one user are under way", len(asked))
	}
	close(release)
	for range greedy {
		if got := <-replies; got.status != http.StatusOK {
			t.Errorf("a read that waited: %d %s", got.status, got.raw)
		}
	}
}
