package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"weir/api/client"
	"weir/api/gateway/oidctest"
	"weir/messages/apipb/apipbconnect"
)

// watched is a session that does not end; it counts what waits for that.
type watched struct {
	context.Context
	done    chan struct{}
	waiting atomic.Int64
}

func (w *watched) Done() <-chan struct{} { return w.done }

func (w *watched) AfterFunc(func()) func() bool {
	w.waiting.Add(1)
	return func() bool {
		w.waiting.Add(-1)
		return true
	}
}

// TestCallsLeaveNothing (W2): a session of hours keeps nothing of the calls that were made in it.
func TestCallsLeaveNothing(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b := tm.browser(home)
	b.signIn("/")
	ends := &watched{Context: context.Background(), done: make(chan struct{})}
	for _, session := range tm.doorman.sessions.all {
		session.ends = ends
	}
	during := int64(0)
	answers := tm.cluster.answers
	tm.cluster.answers = func(ctx context.Context, f client.Forwarded) (*http.Response, error) {
		during = ends.waiting.Load()
		return answers(ctx, f)
	}
	for range 3 {
		if w := b.ask(http.MethodPost, apipbconnect.OperationServiceListProcedure, "{}"); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if during != 1 || ends.waiting.Load() != 0 {
		t.Errorf("%d wait for the end of the session during a call, %d after it; want 1 and 0", during, ends.waiting.Load())
	}
}

// TestStreamsEnd (W2): a stream of events that is open ends when its person signs out.
func TestStreamsEnd(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b := tm.browser(home)
	b.signIn("/")
	arrived := make(chan struct{})
	tm.cluster.answers = func(ctx context.Context, _ client.Forwarded) (*http.Response, error) {
		from, to := io.Pipe()
		context.AfterFunc(ctx, func() { _ = to.CloseWithError(context.Cause(ctx)) })
		close(arrived)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/connect+json"}}, Body: from}, nil
	}
	watching := tm.browser(home)
	cookie := *b.cookies[cookieSession]
	watching.cookies[cookieSession] = &cookie
	said := make(chan *httptest.ResponseRecorder)
	go func() {
		said <- watching.ask(http.MethodPost, apipbconnect.EventServiceReadProcedure, "{}", header("Content-Type", "application/connect+json"))
	}()
	<-arrived
	b.ask(http.MethodGet, "/logout", "")
	if w := <-said; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "cut off") {
		t.Errorf("the stream ends with %d %q", w.Code, w.Body)
	}
	if got := watching.who(); got != "" {
		t.Errorf("who opens it again is %q", got)
	}
}
