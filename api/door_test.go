package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// TestGreedyUserKeepsNobodyOut (T5) has one user make far more calls than there are places, all of which last. Another user and a
// replica are served meanwhile; calls of the first come to an end, or are told how many it has.
func TestGreedyUserKeepsNobodyOut(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Calls, l.QueueTime = 8, 10*time.Millisecond })
	hold := make(chan struct{})
	s.hold.Store(&hold)
	const greedy = 50
	replies := make(chan reply, greedy)
	for range greedy {
		go func() { replies <- s.post("OperationService/List", "{}", roleHeader, "client/mallory") }()
	}
	eventually(t, func() bool { return s.held.Load() == 4 })
	for range greedy - 4 {
		got := <-replies
		if want := "4 calls of user mallory in flight on replica r1, with a limit of 4"; got.status != http.StatusTooManyRequests || !strings.Contains(got.raw, want) {
			t.Fatalf("%d %s, want %q", got.status, got.raw, want)
		}
	}
	if stats := s.handler.Stats(); stats.Calls != 4 || stats.Refused != greedy-4 || stats.RefusedSubjects != 1 {
		t.Errorf("%+v", stats)
	}
	s.hold.Store(nil)
	if got := s.post("OperationService/List", "{}", roleHeader, "client/ann"); got.status != http.StatusOK {
		t.Errorf("ann: %d %s", got.status, got.raw)
	}
	if got := s.post("ClusterService/Join", `{"id": "x"}`, roleHeader, "replica/x"); got.status == http.StatusTooManyRequests {
		t.Errorf("replica: %d %s", got.status, got.raw)
	}
	close(hold)
	for range 4 {
		if got := <-replies; got.status != http.StatusOK {
			t.Errorf("a call that had a place: %d %s", got.status, got.raw)
		}
	}
}

// TestWatchesAndOutputsAreShared (T5) has one user watch more than half of what can be watched, and another one watch too.
func TestWatchesAndOutputsAreShared(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.Watches, l.QueueTime = 6, time.Millisecond })
	id := s.run(1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watch := func(who string) error {
		req := connect.NewRequest(&apipb.WatchOperationRequest{Operation: id})
		req.Header().Set(roleHeader, who)
		stream, err := watcher(s).Watch(ctx, req)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = stream.Close() })
		stream.Receive()
		return stream.Err()
	}
	for i := range 3 {
		if err := watch("client/mallory"); err != nil {
			t.Fatalf("watch %d: %v", i, err)
		}
	}
	if err := watch("client/mallory"); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("one watch too many: %v", err)
	}
	if err := watch("client/ann"); err != nil {
		t.Errorf("ann: %v", err)
	}
	d := newDoor("r1", DefaultLimits())
	for procedure, want := range map[string]*entrance{
		apipbconnect.JobServiceOutputProcedure: d.outputs, apipbconnect.OperationServiceWatchProcedure: d.watches, apipbconnect.OperationServiceGetProcedure: d.calls,
	} {
		who, _ := identityOf(&http.Request{Header: http.Header{}})
		if d.entrance(who, procedure) != want {
			t.Errorf("%s comes in elsewhere", procedure)
		}
	}
}

// TestCallsWaitForAPlace lets a call in when another one of the user ends, and drops one whose client has gone.
func TestCallsWaitForAPlace(t *testing.T) {
	e := newEntrance("calls", 2, 2, patience)
	first := e.enter(t.Context(), aUser("ann"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if e.enter(gone, aUser("ann")) != nil {
		t.Error("the user has a place beyond its share")
	}
	second := make(chan *ticket)
	go func() { second <- e.enter(t.Context(), aUser("ann")) }()
	eventually(t, func() bool { _, waiting := e.count(); return waiting == 1 })
	e.leave(first)
	got := <-second
	if got == nil {
		t.Fatal("the second call has no place")
	}
	e.leave(got)
	if taken, waiting := e.count(); taken != 0 || waiting != 0 || len(e.places.subjects) != 0 {
		t.Errorf("%d taken, %d wait, %d users", taken, waiting, len(e.places.subjects))
	}
}

// TestProbesAreShared (T5): requests for metrics and health are bounded by user, like calls.
func TestProbesAreShared(t *testing.T) {
	s := newSite(t, func(l *Limits) { l.QueueTime = 10 * time.Millisecond })
	started, hold := make(chan struct{}, probePlaces), make(chan struct{})
	server := httptest.NewServer(s.handler.Beside(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			started <- struct{}{}
			<-hold
		}
	})))
	defer server.Close()
	ask := func(path, who string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(roleHeader, who)
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		said, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(said)
	}
	var slow sync.WaitGroup
	for range probePlaces / 2 {
		slow.Go(func() { ask("/slow", "client/mallory") })
		<-started
	}
	if status, said := ask("/", "client/mallory"); status != http.StatusTooManyRequests || !strings.Contains(said, "8 requests for metrics and health of user mallory in flight") {
		t.Errorf("one too many: %d %s", status, said)
	}
	if status, said := ask("/", "client/ann"); status != http.StatusOK {
		t.Errorf("another user: %d %s", status, said)
	}
	close(hold)
	slow.Wait()
}
