package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/commandpb"
	"weir/raftstore"
)

// eventually waits until something holds.
func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatal("it did not come to hold")
		case <-tick.C:
		}
	}
}

func TestWaitEndsWithTheOperation(t *testing.T) {
	s := newSite(t)
	id := s.run(1, "j1")
	got := s.get("OperationService/Wait", `{"operation": "`+id+`", "timeout_millis": "30"}`)
	want(t, got, false, "done")
	want(t, got, "running", "operation", "state")

	answer := make(chan map[string]any, 1)
	go func() { answer <- s.get("OperationService/Wait", `{"operation": "`+id+`"}`) }()
	s.finish(id, "j1", "completed")
	s.must(&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "completing", To: "completed"})
	done := <-answer
	want(t, done, true, "done")
	want(t, done, "completed", "operation", "state")
	want(t, done, "1", "operation", "progress", "completed")
}

func TestWaitFitsIntoTheClientsTime(t *testing.T) {
	s := newSite(t)
	id := s.run(1, "j1")
	got := s.get("OperationService/Wait", `{"operation": "`+id+`"}`, "Connect-Timeout-Ms", "300")
	want(t, got, false, "done")
}

func watcher(s *site) apipbconnect.OperationServiceClient {
	return apipbconnect.NewOperationServiceClient(s.client, s.url)
}

func TestWatchShowsEachChange(t *testing.T) {
	s := newSite(t)
	id := s.run(2, "j1", "j2")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := watcher(s).Watch(ctx, connect.NewRequest(&apipb.WatchOperationRequest{Operation: id}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	next := func() *apipb.Operation {
		t.Helper()
		if !stream.Receive() {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
		return stream.Msg().GetOperation()
	}
	if op := next(); op.GetState() != "running" || op.GetProgress().GetRunning() != 2 {
		t.Errorf("at first: %v", op)
	}
	s.finish(id, "j1", "failed")
	if op := next(); op.GetProgress().GetFailed() != 1 {
		t.Errorf("after a failure: %v", op)
	}
	s.must(&commandpb.AbortOperation{OperationId: id, User: "ann", Reason: "enough"})
	if op := next(); op.GetState() != "aborting" || op.GetResult().GetMessage() != `operation aborted by user "ann": enough` {
		t.Errorf("after the abort: %v", op)
	}
	s.finish(id, "j2", "aborted")
	s.must(&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "aborting", To: "aborted"})
	last := next()
	for last.GetState() == "aborting" {
		last = next()
	}
	if last.GetState() != "aborted" {
		t.Errorf("at last: %v", last)
	}
	if stream.Receive() || stream.Err() != nil {
		t.Errorf("after the end: %v, error %v", stream.Msg(), stream.Err())
	}
}

func TestWatchSaysSomethingWhenNothingChanges(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.KeepAlive = 10 * time.Millisecond })
	id := s.run(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := watcher(s).Watch(ctx, connect.NewRequest(&apipb.WatchOperationRequest{Operation: id}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for range 3 {
		if !stream.Receive() {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
	}
}

func TestWatchIsGuarded(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for role, want := range map[string]connect.Code{"agent": connect.CodePermissionDenied, "replica": connect.CodePermissionDenied, "user": connect.CodeNotFound} {
		req := connect.NewRequest(&apipb.WatchOperationRequest{Operation: "nope"})
		req.Header().Set(roleHeader, role+"/x")
		stream, err := watcher(s).Watch(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if stream.Receive() || connect.CodeOf(stream.Err()) != want {
			t.Errorf("as %s: %v, want %s", role, stream.Err(), want)
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWithoutQuorumTheClientHearsWhy(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Patience = 100 * time.Millisecond })
	id := s.run(1)
	s.quorum.Store(false)
	for method, body := range map[string]string{
		"OperationService/Start": startBody(1, ""), "OperationService/List": "{}", "OperationService/Get": `{"operation": "` + id + `"}`,
		"OperationService/Wait": `{"operation": "` + id + `"}`, "OperationService/Abort": `{"operation": "` + id + `"}`,
		"JobService/List": `{"operation": "` + id + `"}`, "PoolService/List": "{}", "PoolService/Edit": `{"edits": [{"create": {"name": "x"}}]}`, "NodeService/List": "{}",
	} {
		for _, timeout := range []string{"", "200"} {
			var headers []string
			if timeout != "" {
				headers = []string{"Connect-Timeout-Ms", timeout}
			}
			got := s.post(method, body, headers...)
			if got.status != 503 || got.header.Get(apipb.HeaderCode) != "no_quorum" || at(t, got.fields, "code") != "unavailable" {
				t.Errorf("%s within %q: %d %v %s", method, timeout, got.status, got.header, got.raw)
			}
			if leader := got.header.Get(apipb.HeaderLeader); leader != "r1.example:7701" {
				t.Errorf("%s: hint at %q", method, leader)
			}
		}
	}
	status := s.get("ClusterService/Status", "{}")
	want(t, status, false, "quorum")
	s.quorum.Store(true)
	s.get("OperationService/List", "{}")
}

func TestCloseEndsWaits(t *testing.T) {
	s := newSite(t)
	id := s.run(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := watcher(s).Watch(ctx, connect.NewRequest(&apipb.WatchOperationRequest{Operation: id}))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatalf("the stream ended: %v", stream.Err())
	}
	answer := make(chan reply, 1)
	go func() {
		answer <- s.post("OperationService/Wait", `{"operation": "`+id+`", "timeout_millis": "20000"}`)
	}()
	s.handler.Close()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Errorf("watch ended with %v", stream.Err())
	}
	if got := <-answer; got.status != 503 || got.header.Get(apipb.HeaderCode) != "stopping" {
		t.Errorf("wait ended with %d %s", got.status, got.raw)
	}
}

func TestWhatIsKnownOfAChange(t *testing.T) {
	s := newSite(t)
	for name, test := range map[string]struct {
		err        error
		wantStatus int
		wantCode   string
		wantRetry  string
	}{
		"overloaded":      {raftstore.ErrOverloaded, 429, "overloaded", "200"},
		"outcome unknown": {raftstore.ErrOutcomeUnknown, 503, "outcome_unknown", ""},
		"broken stream": {fmt.Errorf("%w: %w", raftstore.ErrOutcomeUnknown, connect.NewError(connect.CodeCanceled, errors.New("broken pipe"))),
			503, "outcome_unknown", ""},
		"something else": {raftstore.ErrClosed, 503, "unavailable", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.breaks.Store(&test.err)
			got := s.post("OperationService/Start", startBody(1, ""))
			if got.status != test.wantStatus || got.header.Get(apipb.HeaderCode) != test.wantCode || got.header.Get(apipb.HeaderRetry) != test.wantRetry {
				t.Errorf("%d %v %s", got.status, got.header, got.raw)
			}
		})
	}
}
