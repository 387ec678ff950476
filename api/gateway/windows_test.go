package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/api/client"
	"weir/api/gateway/oidctest"
	"weir/messages/apipb/apipbconnect"
)

// TestSignInAgain (W2) signs in twice in one browser: the session before ends, at once if it is another person's,
// else when calls that are in flight have had time to end.
func TestSignInAgain(t *testing.T) {
	for name, test := range map[string]struct {
		second     string
		wantAtOnce string
	}{
		"the same person": {"ann", "ann of "},
		"another person":  {"bob", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tm := newTeam(t)
			tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
			b, other := tm.browser(home), tm.browser(home)
			b.signIn("/")
			before := *b.cookies[cookieSession]
			other.cookies[cookieSession] = &before
			tm.issuer.Person(oidctest.Claims{"preferred_username": test.second})
			b.signIn("/")
			if got := other.who(); got != test.wantAtOnce {
				t.Errorf("the session before is %q at once, want %q", got, test.wantAtOnce)
			}
			tm.later.Store(int64(lingers))
			if got := other.who(); got != "" {
				t.Errorf("the session before is %q after %v", got, lingers)
			}
			if got := b.who(); got != test.second+" of " {
				t.Errorf("the session is %q", got)
			}
			if n := len(tm.doorman.sessions.all); n != 1 {
				t.Errorf("%d sessions, want 1", n)
			}
		})
	}
}

// TestSignInAgainElsewhere (W2) signs in with a cookie that was stolen: the session that it is of goes on.
func TestSignInAgainElsewhere(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b, thief := tm.browser(home), tm.browser(elsewhere)
	b.signIn("/")
	cookie := *b.cookies[cookieSession]
	thief.cookies[cookieSession] = &cookie
	tm.issuer.Person(oidctest.Claims{"preferred_username": "mallory"})
	thief.signIn("/")
	if got := b.who(); got != "ann of " {
		t.Errorf("the session is %q", got)
	}
}

// TestSupersededCallsEnd (W2) has a call in flight end when another person signs in in the same browser.
func TestSupersededCallsEnd(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b, watching := tm.browser(home), tm.browser(home)
	b.signIn("/")
	cookie := *b.cookies[cookieSession]
	watching.cookies[cookieSession] = &cookie
	arrived := make(chan struct{})
	tm.cluster.answers = func(ctx context.Context, _ client.Forwarded) (*http.Response, error) {
		close(arrived)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	said := make(chan *httptest.ResponseRecorder)
	go func() { said <- watching.ask(http.MethodPost, apipbconnect.OperationServiceWaitProcedure, "{}") }()
	<-arrived
	tm.issuer.Person(oidctest.Claims{"preferred_username": "bob"})
	b.signIn("/")
	select {
	case w := <-said:
		if w.Code != http.StatusUnauthorized {
			t.Errorf("a call of ann in flight when bob signs in: %d %s", w.Code, w.Body)
		}
	case <-time.After(time.Minute):
		t.Fatal("a call of ann goes on after bob has signed in")
	}
}

// TestWindowsSignInAtOnce (W2) begins several sign-ins in one browser, as windows do whose session has ended: each
// is ended, in whatever order, and leads to its own view. Their number is bounded.
func TestWindowsSignInAtOnce(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b := tm.browser(home)
	begin := func(to string) (callback string) {
		t.Helper()
		return b.atIssuer(b.ask(http.MethodGet, "/login?to="+to, "").Header().Get("Location"))
	}
	pools, nodes := begin("/pools"), begin("/nodes")
	for to, callback := range map[string]string{"/pools": pools, "/nodes": nodes} {
		if w := b.ask(http.MethodGet, callback, ""); w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
			t.Errorf("the window of %s: %d to %q: %s", to, w.Code, w.Header().Get("Location"), w.Body)
		}
	}
	if b.who() != "ann of " || len(b.cookies) != 1 {
		t.Errorf("signed in is %q, cookies %v", b.who(), b.cookies)
	}

	var callbacks []string
	// A cookie of before a restart, which nobody can read any more.
	b.cookies[cookieAttempt+"OLD"] = &http.Cookie{Name: cookieAttempt + "OLD", Value: "unreadable"}
	for i := range attemptsOfOne + 2 {
		tm.later.Store(int64(time.Duration(i) * time.Second))
		callbacks = append(callbacks, begin("/"))
	}
	// And the one of the session.
	if len(b.cookies) != attemptsOfOne+1 {
		t.Errorf("%d cookies, want %d of sign-ins: %v", len(b.cookies), attemptsOfOne, b.cookies)
	}
	for i, callback := range callbacks {
		w := b.ask(http.MethodGet, callback, "")
		if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusSeeOther}[i < 2]; w.Code != want {
			t.Errorf("sign-in %d: %d, want %d", i, w.Code, want)
		}
	}
}

// TestMisuseIsTold (W2) uses a stolen cookie many times: the log tells of the first use at once, and then once a
// minute how many there were, also when only the owner goes on.
func TestMisuseIsTold(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b, thief := tm.browser(home), tm.browser(elsewhere)
	b.signIn("/")
	var log bytes.Buffer
	tm.doorman.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	thief.cookies[cookieSession] = b.cookies[cookieSession]
	lines := func(want ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(got) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), log.String())
		}
		for i, line := range got {
			if !strings.Contains(line, "user=ann from="+elsewhere+" "+want[i]) {
				t.Errorf("line %d is %s, want …%s", i, line, want[i])
			}
		}
	}
	for range 100 {
		thief.who()
		b.who()
	}
	lines("unlogged_before=0")
	tm.later.Store(int64(misuseTold))
	b.who()
	lines("unlogged_before=0", "unlogged_before=98")
	b.who()
	tm.later.Store(int64(3 * misuseTold))
	b.who()
	lines("unlogged_before=0", "unlogged_before=98")
	thief.who()
	lines("unlogged_before=0", "unlogged_before=98", "unlogged_before=0")
}
