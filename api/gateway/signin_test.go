package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/client"
	"weir/api/gateway/oidctest"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

const teamOrigin = "https://weir.example"

// team is the handler of weir gateway with an issuer of its own.
type team struct {
	*Team
	t       *testing.T
	issuer  *oidctest.Issuer
	cluster *fakeCluster
	// later is how far the clock of sessions is ahead.
	later atomic.Int64
}

func newTeam(t *testing.T, change ...func(*OIDC)) *team {
	t.Helper()
	tm := &team{t: t, issuer: oidctest.New(t), cluster: &fakeCluster{}}
	tm.cluster.answers = func(_ context.Context, f client.Forwarded) (*http.Response, error) {
		said, _ := json.Marshal(map[string]any{"user": f.Header.Get(apipb.HeaderOnBehalfOf), "role": "user", "groups": strings.Split(f.Header.Get(apipb.HeaderGroups), ",")})
		return answered("application/json", string(said)), nil
	}
	by := OIDC{Issuer: tm.issuer.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret}
	for _, c := range change {
		c(&by)
	}
	made, err := NewTeam(Config{
		Files: page, Cluster: tm.cluster, Origin: &url.URL{Scheme: "https", Host: "weir.example"}, Version: "v1", Write: true,
		Now: func() time.Time { return time.Now().Add(time.Duration(tm.later.Load())) },
	}, by)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	t.Cleanup(made.doorman.issuer.http.CloseIdleConnections)
	tm.Team = made
	return tm
}

// browser is one at an address, with its cookies.
type browser struct {
	*team
	from    string
	cookies map[string]*http.Cookie
}

func (tm *team) browser(from string) *browser {
	return &browser{tm, from, map[string]*http.Cookie{}}
}

func (b *browser) ask(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(b.t.Context(), method, teamOrigin+path, strings.NewReader(body))
	r.RemoteAddr = b.from
	for _, cookie := range b.cookies {
		r.AddCookie(cookie)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", teamOrigin)
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
			continue
		}
		b.cookies[cookie.Name] = cookie
	}
	return w
}

// atIssuer follows the browser to the issuer, and returns the path with which it comes back.
func (b *browser) atIssuer(address string) (callback string) {
	b.t.Helper()
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer stay.CloseIdleConnections()
	answer, err := stay.Get(address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		text, _ := io.ReadAll(answer.Body)
		b.t.Fatalf("the issuer answers %d %s", answer.StatusCode, text)
	}
	return back.RequestURI()
}

// signIn does all that a browser does to sign in, and returns the last answer.
func (b *browser) signIn(to string) *httptest.ResponseRecorder {
	b.t.Helper()
	w := b.ask(http.MethodGet, "/login?to="+url.QueryEscape(to), "")
	if w.Code != http.StatusFound {
		return w
	}
	return b.ask(http.MethodGet, b.atIssuer(w.Header().Get("Location")), "")
}

// who returns who the gateway takes the browser for; empty: nobody.
func (b *browser) who() string {
	w := b.ask(http.MethodGet, "/session", "")
	if w.Code != http.StatusOK {
		return ""
	}
	var said sessionAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil {
		b.t.Fatal(err)
	}
	return said.Name + " of " + strings.Join(said.Groups, ",")
}

const home, elsewhere = "127.0.0.1:5001", "127.0.0.2:5001"

// TestSignIn (W2) signs a person in and out, and calls the API in between.
func TestSignIn(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann", "groups": []string{"ads", "Domain Users", "all", "ads"}})
	b := tm.browser(home)
	if b.who() != "" {
		t.Fatal("a browser without a session is somebody")
	}
	w := b.signIn("/operations?state=failed")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/operations?state=failed" {
		t.Fatalf("%d to %q: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	cookie := b.cookies[cookieSession]
	if cookie == nil || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	if len(b.cookies) != 1 {
		t.Errorf("cookies are left: %v", b.cookies)
	}
	if got := b.who(); got != "ann of ads,all" {
		t.Errorf("signed in is %q", got)
	}
	b.ask(http.MethodPost, apipbconnect.PoolServiceListProcedure, "{}", header(apipb.HeaderOnBehalfOf, "oda"), header(apipb.HeaderGroups, "admins"))
	sent := tm.cluster.last().Header
	if got := append(sent.Values(apipb.HeaderOnBehalfOf), sent.Values(apipb.HeaderGroups)...); len(got) != 2 || got[0] != "ann" || got[1] != "ads,all" {
		t.Errorf("a replica is told %q", got)
	}
	if w := b.ask(http.MethodPost, apipbconnect.PoolServiceListProcedure, "{}", header("Origin", "https://evil.example")); w.Code != http.StatusForbidden {
		t.Errorf("a page of another site: %d", w.Code)
	}
	if w := b.ask(http.MethodGet, "/logout", "", header("Sec-Fetch-Site", "cross-site")); w.Code != http.StatusForbidden || b.who() == "" {
		t.Errorf("a link on another site signs out: %d", w.Code)
	}
	stolen := *b.cookies[cookieSession]
	if w := b.ask(http.MethodGet, "/logout", ""); w.Code != http.StatusOK || len(b.cookies) != 0 {
		t.Errorf("sign-out: %d %v", w.Code, b.cookies)
	}
	b.cookies[cookieSession] = &stolen
	if got := b.who(); got != "" {
		t.Errorf("after sign-out the cookie is still %q", got)
	}
}

// TestStolenCookie (W2) uses a session from another address: it is nobody's there, and goes on where it was.
func TestStolenCookie(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b, thief := tm.browser(home), tm.browser(elsewhere)
	b.signIn("/")
	thief.cookies[cookieSession] = b.cookies[cookieSession]
	if got := thief.who(); got != "" {
		t.Errorf("the thief is %q", got)
	}
	before := len(tm.cluster.sent)
	w := thief.ask(http.MethodPost, apipbconnect.PoolServiceListProcedure, "{}")
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "another network address") || len(tm.cluster.sent) > before {
		t.Errorf("the thief's call: %d %s", w.Code, w.Body)
	}
	thief.ask(http.MethodGet, "/logout", "")
	if b.who() == "" {
		t.Error("the thief has ended the session")
	}
	// Within a network of IPv6 a machine changes its address by itself.
	six := tm.browser("[2001:db8::1]:99")
	six.signIn("/")
	six.from = "[2001:db8::abcd:2]:7"
	near := six.who()
	six.from = "[2001:db8:0:1::1]:99"
	if far := six.who(); near == "" || far != "" {
		t.Errorf("in the same network %q, in another %q", near, far)
	}
}

// TestSessionsEnd (W2): a session ends by time, and its calls end with it.
func TestSessionsEnd(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	b := tm.browser(home)
	b.signIn("/")
	tm.later.Store(int64(8*time.Hour - time.Minute))
	if b.who() == "" {
		t.Error("the session has ended early")
	}
	tm.later.Store(int64(8 * time.Hour))
	if got := b.who(); got != "" {
		t.Errorf("after its time it is %q", got)
	}
	b.signIn("/")
	arrived := make(chan struct{})
	tm.cluster.answers = func(ctx context.Context, _ client.Forwarded) (*http.Response, error) {
		close(arrived)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	said := make(chan *httptest.ResponseRecorder)
	cookie := *b.cookies[cookieSession]
	go func() {
		watching := tm.browser(home)
		watching.cookies[cookieSession] = &cookie
		said <- watching.ask(http.MethodPost, apipbconnect.OperationServiceWaitProcedure, "{}")
	}()
	<-arrived
	b.ask(http.MethodGet, "/logout", "")
	if w := <-said; w.Code != http.StatusUnauthorized {
		t.Errorf("a call in flight at sign-out: %d %s", w.Code, w.Body)
	}
}

// TestSessionsAreBounded (W2): a person's newest sessions go on.
func TestSessionsAreBounded(t *testing.T) {
	s := newSessions(time.Now, func(visitor, string, int) {})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	var secrets []string
	for range sessionsOfOne + 2 {
		secret, err := s.open(visitor{name: "ann"}, r, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	for i, secret := range secrets {
		if _, err := s.of(secret, r); (err == nil) != (i >= 2) {
			t.Errorf("session %d: %v", i, err)
		}
	}
	for i := len(s.all); i < maxSessions; i++ {
		s.all[sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(i)))] = &signedIn{visitor: visitor{name: "bob"}, expires: time.Now().Add(time.Hour), end: func() {}}
	}
	if _, err := s.open(visitor{name: "one-more"}, r, time.Hour); !errors.Is(err, errManyIn) {
		t.Errorf("one more than all: %v", err)
	}
	if _, err := s.of(secrets[len(secrets)-1], r); err != nil {
		t.Errorf("those who are in: %v", err)
	}
	s.closeAll()
}

// TestRefusedSignIns (W2): each says what is wrong and what to do, and signs nobody in.
func TestRefusedSignIns(t *testing.T) {
	hour := time.Now().Add(time.Hour).Unix()
	tests := map[string]struct {
		claims oidctest.Claims
		change func(*OIDC)
		want   string
	}{
		"an expired token":            {claims: oidctest.Claims{"exp": time.Now().Add(-time.Hour).Unix()}, want: "expired"},
		"a token for another client":  {claims: oidctest.Claims{"aud": "other", "exp": hour}, want: "audience"},
		"a token of another sign-in":  {claims: oidctest.Claims{"nonce": "x"}, want: "another sign-in"},
		"a token of another issuer":   {claims: oidctest.Claims{"iss": "https://other.example"}, want: "different provider"},
		"no name":                     {claims: oidctest.Claims{"preferred_username": nil}, want: "--name-claim"},
		"a name that Weir cannot use": {claims: oidctest.Claims{"preferred_username": "ann@example.org"}, want: "--name-suffix"},
		"a name with markup":          {claims: oidctest.Claims{"preferred_username": "<script>alert(1)</script>"}, want: "&lt;script&gt;"},
		"another domain": {
			claims: oidctest.Claims{"preferred_username": "ann@evil.example"}, change: func(o *OIDC) { o.NameSuffix = "@example.org" }, want: "does not end with",
		},
		"an email that nobody verified": {
			claims: oidctest.Claims{"email": "ann@example.org"}, change: func(o *OIDC) { o.NameClaim, o.NameSuffix = "email", "@example.org" }, want: "has not verified",
		},
		"groups that are no list":                {claims: oidctest.Claims{"groups": 7}, want: "--groups-claim"},
		"a secret that the issuer does not know": {change: func(o *OIDC) { o.ClientSecret = "other" }, want: "refused the code"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change == nil {
				test.change = func(*OIDC) {}
			}
			tm := newTeam(t, test.change)
			claims := oidctest.Claims{"preferred_username": "ann"}
			for claim, value := range test.claims {
				claims[claim] = value
			}
			tm.issuer.Person(claims)
			b := tm.browser(home)
			w := b.signIn("/")
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), test.want) || strings.Contains(w.Body.String(), "<script") || b.who() != "" {
				t.Errorf("%d, want a page with %q: %s", w.Code, test.want, w.Body)
			}
			if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
				t.Errorf("policy %q", w.Header().Get("Content-Security-Policy"))
			}
		})
	}
}

// TestNamesOfPeople (W2) reads names and groups out of claims.
func TestNamesOfPeople(t *testing.T) {
	for name, test := range map[string]struct {
		claims oidctest.Claims
		change func(*OIDC)
		want   string
	}{
		"a verified email":    {oidctest.Claims{"email": "ann@example.org", "email_verified": true}, func(o *OIDC) { o.NameClaim, o.NameSuffix = "email", "@example.org" }, "ann of "},
		"claims of one's own": {oidctest.Claims{"login": "bob", "teams": "ads"}, func(o *OIDC) { o.NameClaim, o.GroupsClaim = "login", "teams" }, "bob of ads"},
	} {
		tm := newTeam(t, test.change)
		tm.issuer.Person(test.claims)
		b := tm.browser(home)
		if w := b.signIn("/"); b.who() != test.want {
			t.Errorf("%s: %q, want %q: %s", name, b.who(), test.want, w.Body)
		}
	}
}

// TestForgedSignIns (W2): nobody ends a sign-in that another browser has begun, or is led elsewhere by one.
func TestForgedSignIns(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "mallory"})
	attacker, victim := tm.browser(elsewhere), tm.browser(home)
	begun := attacker.ask(http.MethodGet, "/login", "")
	callback := attacker.atIssuer(begun.Header().Get("Location"))
	if w := victim.ask(http.MethodGet, callback, ""); w.Code != http.StatusBadRequest || victim.who() != "" {
		t.Errorf("another's sign-in: %d, who: %q", w.Code, victim.who())
	}
	victim.ask(http.MethodGet, "/login", "")
	if w := victim.ask(http.MethodGet, callback, ""); w.Code != http.StatusBadRequest || victim.who() != "" {
		t.Errorf("another's sign-in in place of the own: %d, who: %q", w.Code, victim.who())
	}
	tm.later.Store(int64(attemptTime))
	if w := attacker.ask(http.MethodGet, callback, ""); w.Code != http.StatusBadRequest {
		t.Errorf("a sign-in of ten minutes ago: %d", w.Code)
	}
	tm.later.Store(0)
	for _, to := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "javascript:alert(1)", "evil", "/" + strings.Repeat("x", maxReturn)} {
		if w := tm.browser(home).signIn(to); w.Header().Get("Location") != "/" {
			t.Errorf("to=%.40s leads to %q", to, w.Header().Get("Location"))
		}
	}
	tm.issuer.Refuse("access_denied")
	if w := victim.signIn("/"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "access_denied") {
		t.Errorf("the issuer refuses: %d %s", w.Code, w.Body)
	}
}

// TestIssuerDown (W2): nobody new signs in, the page says so and asks again, and those who are in go on.
func TestIssuerDown(t *testing.T) {
	tm := newTeam(t)
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann"})
	tm.issuer.Down(true)
	b := tm.browser(home)
	w := b.ask(http.MethodGet, "/login?to=/nodes", "")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `data-retry="/login?to=%2Fnodes"`) {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	tm.issuer.Down(false)
	// A failure is remembered for a moment.
	tm.doorman.issuer.failed = time.Time{}
	if w := b.signIn("/nodes"); w.Header().Get("Location") != "/nodes" {
		t.Fatalf("when it is back: %d %s", w.Code, w.Body)
	}
	tm.issuer.Down(true)
	if b.who() == "" {
		t.Error("who was signed in no longer is")
	}
	other := tm.browser(home)
	// That it has answered counts for a moment; later nobody is sent to an issuer that is not there.
	tm.doorman.issuer.answered = time.Time{}
	if w := other.ask(http.MethodGet, "/login", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("an issuer that went down after it was found: %d to %q", w.Code, w.Header().Get("Location"))
	}
	tm.issuer.Down(false)
	tm.doorman.issuer.failed = time.Time{}
	begun := other.ask(http.MethodGet, "/login", "")
	callback := other.atIssuer(begun.Header().Get("Location"))
	tm.issuer.Down(true)
	if w := other.ask(http.MethodGet, callback, ""); w.Code != http.StatusServiceUnavailable || other.who() != "" {
		t.Errorf("it goes down in the middle: %d %s", w.Code, w.Body)
	}
}

// TestGatewaysThatCannotBe (W2) are refused with what to do.
func TestGatewaysThatCannotBe(t *testing.T) {
	good := OIDC{Issuer: "https://id.example", ClientID: "weir", ClientSecret: "s"}
	for name, test := range map[string]struct {
		origin string
		change func(*OIDC)
		want   string
	}{
		"a page in the clear":         {"http://weir.example", func(*OIDC) {}, "must be https"},
		"an issuer in the clear":      {teamOrigin, func(o *OIDC) { o.Issuer = "http://id.example" }, "must be https"},
		"an issuer that is no URL":    {teamOrigin, func(o *OIDC) { o.Issuer = "id.example" }, "must be a URL"},
		"no client id":                {teamOrigin, func(o *OIDC) { o.ClientID = "" }, "client id"},
		"no client secret":            {teamOrigin, func(o *OIDC) { o.ClientSecret = "" }, "client secret"},
		"sessions of negative length": {teamOrigin, func(o *OIDC) { o.SessionTime = -1 }, "session time"},
	} {
		origin, err := url.Parse(test.origin)
		if err != nil {
			t.Fatal(err)
		}
		by := good
		test.change(&by)
		if _, err := NewTeam(Config{Files: page, Cluster: &fakeCluster{}, Origin: origin}, by); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want …%s…", name, err, test.want)
		}
	}
}
