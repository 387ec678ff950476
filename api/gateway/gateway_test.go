package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"weir/api/client"
	"weir/cluster/leaktest"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var page = fstest.MapFS{
	"index.html":         {Data: []byte("<!doctype html><title>Weir</title>")},
	"assets/app-1234.js": {Data: []byte("start()")},
}

// fakeCluster answers each call with its name, and keeps what it was sent.
type fakeCluster struct {
	mu   sync.Mutex
	sent []client.Forwarded
	// answers, if set, answers instead.
	answers func(ctx context.Context, f client.Forwarded) (*http.Response, error)
}

func (c *fakeCluster) Forward(ctx context.Context, f client.Forwarded) (*http.Response, error) {
	c.mu.Lock()
	c.sent = append(c.sent, f)
	answers := c.answers
	c.mu.Unlock()
	if answers != nil {
		return answers(ctx, f)
	}
	if f.Stream {
		return answered("application/connect+json", "\x02\x00\x00\x00\x02{}"), nil
	}
	return answered("application/json", `{"user":"ann","role":"user","groups":["ads"]}`), nil
}

func answered(kind, body string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
}

func (c *fakeCluster) last() client.Forwarded {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[len(c.sent)-1]
}

// local is the handler of weir ui, as a test calls it.
type local struct {
	*Local
	t       *testing.T
	cluster *fakeCluster
}

func newLocal(t *testing.T, change ...func(*Config)) *local {
	t.Helper()
	l := &local{t: t, cluster: &fakeCluster{}}
	cfg := Config{Files: page, Cluster: l.cluster, Origin: &url.URL{Scheme: "http", Host: "127.0.0.1:7123"}, Version: "v1"}
	for _, c := range change {
		c(&cfg)
	}
	made, err := NewLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.Local = made
	return l
}

// ask sends a request as the page does, after the changes.
func (l *local) ask(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(l.t.Context(), method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:7123"
	r.Header.Set("Authorization", "Bearer "+l.token)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Origin", "http://127.0.0.1:7123")
		r.Header.Set("Content-Type", "application/json")
		if streams[path] {
			r.Header.Set("Content-Type", "application/connect+json")
		}
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// TestEveryMethodIsListed (W2) holds the table of methods to the API.
func TestEveryMethodIsListed(t *testing.T) {
	if len(streams) < 60 {
		t.Fatalf("the API has %d methods: is it read whole?", len(streams))
	}
	for procedure := range streams {
		if methods[procedure] == 0 {
			t.Errorf("methods does not say what %s does", procedure)
		}
	}
	for procedure := range methods {
		if _, ok := streams[procedure]; !ok {
			t.Errorf("methods has %s, which the API has not", procedure)
		}
	}
	// The names of methods that change something, as far as a name tells.
	for procedure, does := range methods {
		changing := slices.ContainsFunc([]string{
			"Start", "Retry", "Abort", "Suspend", "Resume", "Complete", "Update", "Interrupt", "Forget", "Edit", "Create", "Set", "Remove", "Drain", "Undrain",
			"Transfer", "Add", "Promote", "Demote", "Revoke", "SetDefault", "EditGrant", "EditGroup", "EditAccounts", "EditStore",
		}, func(word string) bool { return name(procedure) == word })
		if changing != (does == changes) {
			t.Errorf("%s: changes something: %t by its name, %t by the table", procedure, changing, does == changes)
		}
	}
}

// TestReadOnly (W2) makes every call of the API as the page does, without and with --write.
func TestReadOnly(t *testing.T) {
	for _, write := range []bool{false, true} {
		l := newLocal(t, func(c *Config) { c.Write = write })
		for procedure, does := range methods {
			before := len(l.cluster.sent)
			w := l.ask(http.MethodPost, procedure, "{}")
			passes := does == reads || does == changes && write
			if passed := len(l.cluster.sent) > before; passed != passes {
				t.Errorf("write %t: %s reaches the cluster: %t, want %t: %d %s", write, procedure, passed, passes, w.Code, w.Body)
			}
			if !passes && does == changes && !strings.Contains(w.Body.String(), "read-only") {
				t.Errorf("%s: %s", procedure, w.Body)
			}
			if passes && l.cluster.last().Changes != (does == changes) {
				t.Errorf("%s: taken for a change: %t", procedure, l.cluster.last().Changes)
			}
		}
		for _, unknown := range []string{"/weir.api.v1.PoolService/Invent", "/other.Service/Do", "/", "/session", "/login"} {
			before := len(l.cluster.sent)
			if w := l.ask(http.MethodPost, unknown, "{}"); w.Code < 400 || len(l.cluster.sent) > before {
				t.Errorf("%s: %d %s", unknown, w.Code, w.Body)
			}
		}
	}
}

// TestForeignPages (W2) is a page of another site that asks, or has its own name resolve to the address.
func TestForeignPages(t *testing.T) {
	const pools = apipbconnect.PoolServiceListProcedure
	tests := map[string]struct {
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"the page's own call":           {http.MethodPost, pools, func(*http.Request) {}, 200},
		"a program with the token":      {http.MethodPost, pools, func(r *http.Request) { r.Header.Del("Origin"); r.Header.Del("Sec-Fetch-Site") }, 200},
		"another origin":                {http.MethodPost, pools, header("Origin", "https://evil.example"), 403},
		"no origin of its own":          {http.MethodPost, pools, header("Origin", "null"), 403},
		"another port":                  {http.MethodPost, pools, header("Origin", "http://127.0.0.1:7124"), 403},
		"another scheme":                {http.MethodPost, pools, header("Origin", "https://127.0.0.1:7123"), 403},
		"another site without origin":   {http.MethodPost, pools, func(r *http.Request) { r.Header.Del("Origin"); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a name that resolves here":     {http.MethodPost, pools, func(r *http.Request) { r.Host = "evil.example:7123" }, 421},
		"the same of a file":            {http.MethodGet, "/", func(r *http.Request) { r.Host = "evil.example:7123" }, 421},
		"no token":                      {http.MethodPost, pools, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"another token":                 {http.MethodPost, pools, header("Authorization", "Bearer AAAA"), 401},
		"the session without token":     {http.MethodGet, "/session", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"a form":                        {http.MethodPost, pools, header("Content-Type", "text/plain"), 400},
		"a request that is compressed":  {http.MethodPost, pools, header("Content-Encoding", "gzip"), 400},
		"a stream as one answer":        {http.MethodPost, apipbconnect.EventServiceReadProcedure, header("Content-Type", "application/json"), 400},
		"a deadline that is no number":  {http.MethodPost, pools, header("Connect-Timeout-Ms", "soon"), 400},
		"a request of too many bytes":   {http.MethodPost, pools, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", maxRead+1))) }, 429},
		"a file, whoever looks":         {http.MethodGet, "/assets/app-1234.js", func(r *http.Request) { r.Header.Del("Authorization") }, 200},
		"a path that is not there":      {http.MethodGet, "/operations/op-1", func(*http.Request) {}, 302},
		"a file that is not there":      {http.MethodGet, "/assets/other.js", func(*http.Request) {}, 404},
		"a file above":                  {http.MethodGet, "/../../etc/passwd.txt", func(*http.Request) {}, 404},
		"a method that is not for this": {http.MethodPut, "/", func(*http.Request) {}, 405},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLocal(t)
			w := l.ask(test.method, test.path, "{}", test.change)
			if w.Code != test.want {
				t.Errorf("status %d, want %d: %s", w.Code, test.want, w.Body)
			}
			if w.Code != 200 && len(l.cluster.sent) > 0 {
				t.Error("the cluster was asked")
			}
		})
	}
}

// TestHeaders (W2) looks at what browsers are told of the page, and of a notice.
func TestHeaders(t *testing.T) {
	l := newLocal(t)
	for _, path := range []string{"/", "/assets/app-1234.js", "/session", "/missing.js"} {
		got := l.ask(http.MethodGet, path, "").Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got.Get(name), want)
			}
		}
		csp := got.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
	for path, want := range map[string]string{"/": "no-cache", "/index.html": "no-cache", "/assets/app-1234.js": "public, max-age=31536000, immutable", "/session": "no-store"} {
		if got := l.ask(http.MethodGet, path, "").Header().Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control %q, want %q", path, got, want)
		}
	}
	if got := l.ask(http.MethodGet, "/index.html", ""); got.Code != 200 || !strings.Contains(got.Body.String(), "<title>Weir") {
		t.Errorf("/index.html: %d %s", got.Code, got.Body)
	}
}

// TestBrowsersNameNobody (W2): what a browser says of who looks does not reach a replica.
func TestBrowsersNameNobody(t *testing.T) {
	l := newLocal(t)
	w := l.ask(http.MethodPost, apipbconnect.PoolServiceListProcedure, `{"tree":"x"}`,
		header(apipb.HeaderOnBehalfOf, "oda"), header(apipb.HeaderGroups, "admins"), header("Weir-Insecure-Identity", "operator/oda"), header("Cookie", "a=b"), header("X-Any", "1"))
	if w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	var names []string
	for name := range l.cluster.last().Header {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"Accept-Encoding", "Content-Type"}; !slices.Equal(names, want) {
		t.Errorf("a replica is sent %v, want %v", names, want)
	}
	if got := string(l.cluster.last().Body); got != `{"tree":"x"}` {
		t.Errorf("a replica is sent %q", got)
	}
}

// TestSessionOfUI (W2) is what the page learns at its start.
func TestSessionOfUI(t *testing.T) {
	l := newLocal(t)
	w := l.ask(http.MethodGet, "/session", "")
	want := `{"name":"ann","role":"user","groups":["ads"],"write":false,"signOut":"","version":"v1"}`
	if got := strings.TrimSpace(w.Body.String()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// Whose role is not known is asked for again.
	l.cluster.answers = func(context.Context, client.Forwarded) (*http.Response, error) {
		return nil, errors.New("no replica answers")
	}
	if got := l.ask(http.MethodGet, "/session", "").Body.String(); !strings.Contains(got, `"role":""`) {
		t.Errorf("of a cluster that does not answer: %s", got)
	}
	if !strings.HasPrefix(l.URL(), "http://127.0.0.1:7123/#token=") || newLocal(t).URL() == l.URL() {
		t.Errorf("the address is %s, and so is that of another run", l.URL())
	}
}

// TestDeadlines (W2): a browser's deadline bounds its call.
func TestDeadlines(t *testing.T) {
	l := newLocal(t)
	l.cluster.answers = func(ctx context.Context, _ client.Forwarded) (*http.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w := l.ask(http.MethodPost, apipbconnect.OperationServiceWaitProcedure, "{}", header("Connect-Timeout-Ms", "5"))
	var said struct{ Code string }
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Code != "deadline_exceeded" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestStreamsThatBreakOff (W2): the page is told that a replica went away between two messages.
func TestStreamsThatBreakOff(t *testing.T) {
	l := newLocal(t)
	const message, end = "\x00\x00\x00\x00\x02{}", "\x02\x00\x00\x00\x02{}"
	for name, test := range map[string]struct{ body, want string }{
		"a whole stream":       {message + end, message + end},
		"cut after a message":  {message, message + string(cutOff)},
		"cut before the first": {"", string(cutOff)},
	} {
		l.cluster.answers = func(context.Context, client.Forwarded) (*http.Response, error) {
			return answered("application/connect+json", test.body), nil
		}
		if got := l.ask(http.MethodPost, apipbconnect.EventServiceReadProcedure, message).Body.String(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	l.cluster.answers = func(context.Context, client.Forwarded) (*http.Response, error) {
		return answered("application/connect+json", "\x00\x00\x00\x00\x09{}"), nil
	}
	defer func() {
		if broke, _ := recover().(error); !errors.Is(broke, http.ErrAbortHandler) {
			t.Errorf("a message that is cut: %v, want the connection to end", broke)
		}
	}()
	l.ask(http.MethodPost, apipbconnect.EventServiceReadProcedure, message)
}

// TestCallsAreBounded (W2): a person has so many calls in flight, and no more.
func TestCallsAreBounded(t *testing.T) {
	l := newLocal(t, func(c *Config) { c.CallsOfOne = 2 })
	arrived, done := make(chan struct{}, 2), make(chan struct{})
	l.cluster.answers = func(context.Context, client.Forwarded) (*http.Response, error) {
		arrived <- struct{}{}
		<-done
		return answered("application/json", "{}"), nil
	}
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { l.ask(http.MethodPost, apipbconnect.PoolServiceListProcedure, "{}") })
	}
	for range 2 {
		<-arrived
	}
	w := l.ask(http.MethodPost, apipbconnect.PoolServiceListProcedure, "{}")
	if w.Code != http.StatusTooManyRequests || w.Header().Get(apipb.HeaderRetry) == "" {
		t.Errorf("a third call: %d %s", w.Code, w.Body)
	}
	close(done)
	calls.Wait()
	l.cluster.answers = nil
	if w := l.ask(http.MethodPost, apipbconnect.PoolServiceListProcedure, "{}"); w.Code != 200 {
		t.Errorf("when the others have ended: %d %s", w.Code, w.Body)
	}
}

// TestOneReplica (W1): the page may name the replica that it asks, of those that the cluster has, and only to read.
func TestOneReplica(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := newLocal(t, func(cfg *Config) { cfg.Write, cfg.Now = true, func() time.Time { return now } })
	members := 0
	l.cluster.answers = func(_ context.Context, f client.Forwarded) (*http.Response, error) {
		if f.Procedure == apipbconnect.ClusterServiceMembersProcedure {
			members++
			return answered("application/json", `{"members":[{"id":"r1","address":"h1:7701"},{"id":"r2","address":"h2:7701"}]}`), nil
		}
		return answered("application/json", "{}"), nil
	}
	ask := func(procedure, replica string) int {
		return l.ask(http.MethodPost, procedure, "{}", header(apipb.HeaderReplica, replica)).Code
	}
	const status = apipbconnect.ClusterServiceStatusProcedure
	for replica, want := range map[string]string{"r1": "h1:7701", "r2": "h2:7701"} {
		if code := ask(status, replica); code != http.StatusOK || l.cluster.last().Address != want || l.cluster.last().Header.Get(apipb.HeaderReplica) != "" {
			t.Errorf("replica %s: %d, asked %+v, want %s", replica, code, l.cluster.last(), want)
		}
	}
	if members != 1 {
		t.Errorf("asked %d times which replicas there are", members)
	}
	now = now.Add(rosterFor)
	if ask(status, "r1"); members != 2 {
		t.Errorf("asked %d times which replicas there are, after a while", members)
	}
	// A list of nodes that somebody else asked for is of any replica.
	if ask(apipbconnect.NodeServiceListProcedure, "r2"); l.cluster.last().Address != "h2:7701" {
		t.Errorf("a list is of %q", l.cluster.last().Address)
	}
	for what, refused := range map[string]struct {
		procedure, replica string
		want               int
	}{
		"no replica": {status, "r3", http.StatusNotFound}, "an address": {status, "h1:7701", http.StatusNotFound},
		"a change": {apipbconnect.OperationServiceAbortProcedure, "r1", http.StatusBadRequest},
	} {
		if code := ask(refused.procedure, refused.replica); code != refused.want || l.cluster.last().Procedure == refused.procedure && refused.procedure != status {
			t.Errorf("%s: %d, want %d", what, code, refused.want)
		}
	}
}
