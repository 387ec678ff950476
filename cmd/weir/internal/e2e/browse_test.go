package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/api/gateway/oidctest"
	"weir/messages/apipb"
)

// viewer is a browser that has opened the page.
type viewer struct {
	t      *testing.T
	client *http.Client
	// origin is the page's, and token what its address had.
	origin, token string
	// replica, if not empty, is the one that calls name.
	replica string
}

// ask sends a request as the page does.
func (v *viewer) ask(method, path, body string) (status int, answer string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, v.origin+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	if v.token != "" {
		request.Header.Set("Authorization", "Bearer "+v.token)
	}
	if v.replica != "" {
		request.Header.Set(apipb.HeaderReplica, v.replica)
	}
	if method == http.MethodPost {
		request.Header.Set("Origin", v.origin)
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := v.client.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// call makes a call of the API as the page does.
func (v *viewer) call(method, body string) (status int, answer string) {
	v.t.Helper()
	return v.ask(http.MethodPost, "/weir.api.v1."+method, body)
}

// who returns what the page learns of who looks.
func (v *viewer) who() string {
	v.t.Helper()
	status, answer := v.ask(http.MethodGet, "/session", "")
	if status != http.StatusOK {
		return fmt.Sprint(status)
	}
	var said struct {
		Name, Role string
		Groups     []string
		Write      bool
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil {
		v.t.Fatal(err)
	}
	return fmt.Sprintf("%s %s of %s write %t", said.Role, said.Name, strings.Join(said.Groups, ","), said.Write)
}

// ui starts weir ui with a certificate, and opens the address that it prints.
func (c *cluster) ui(t *testing.T, folder string, more ...string) (*viewer, *process) {
	t.Helper()
	var addresses []string
	for _, name := range replicaNames {
		addresses = append(addresses, c.addresses[name])
	}
	p := c.launch("ui-"+folder, c.launcher, append([]string{"ui", "--addresses", strings.Join(addresses, ","), "--credentials", c.certs(folder)}, more...)...)
	p.says(t, "Ctrl-C")
	var at *url.URL
	for line := range strings.Lines(p.printed()) {
		if u, err := url.Parse(strings.TrimSpace(line)); err == nil && u.Scheme == "http" {
			at = u
		}
	}
	if at == nil {
		t.Fatalf("weir ui prints no address: %s", p.printed())
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	token, _ := strings.CutPrefix(at.Fragment, "token=")
	return &viewer{t: t, client: client, origin: "http://" + at.Host, token: token}, p
}

// TestUI (W2) opens the page as a user with few rights: the page sees and can do what they say, and goes on
// when the leader is killed.
func TestUI(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "user", "--name", "mallory"); code != 0 {
		t.Fatal(printed)
	}
	secret := c.start(t, one(small(1, "run", c.folder(t), "1h"), object{"title": "secret plan"}))
	c.runs(t, secret, 1)
	looks, process := c.ui(t, "user-mallory")
	writes, _ := c.ui(t, "operator-admin", "--write")
	if status, page := looks.ask(http.MethodGet, "/", ""); status != http.StatusOK || !strings.Contains(page, "<title>Weir") {
		t.Errorf("the page: %d %.200s", status, page)
	}
	if got := looks.who(); got != "user mallory of  write false" {
		t.Errorf("the page is told %q", got)
	}
	if got := writes.who(); got != "operator admin of  write true" {
		t.Errorf("the operator's page is told %q", got)
	}
	stranger := *looks
	stranger.token = "AAAA"
	if status, answer := stranger.call("PoolService/List", "{}"); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", status, answer)
	}
	if status, answer := looks.call("OperationService/List", "{}"); status != http.StatusOK || !strings.Contains(answer, secret) || strings.Contains(answer, "secret plan") {
		t.Errorf("the list of who may not read: %d %s", status, answer)
	}
	if status, answer := looks.call("JobService/List", `{"operation":"`+secret+`"}`); status != http.StatusForbidden {
		t.Errorf("jobs of who may not read: %d %s", status, answer)
	}
	if status, answer := looks.call("OperationService/Abort", `{"operation":"`+secret+`"}`); status != http.StatusForbidden || !strings.Contains(answer, "read-only") {
		t.Errorf("a change on a page that is read-only: %d %s", status, answer)
	}
	for _, name := range replicaNames {
		one := *looks
		one.replica = name
		if status, answer := one.call("ClusterService/Status", "{}"); status != http.StatusOK || !strings.Contains(answer, `"replica":"`+name+`"`) {
			t.Errorf("replica %s is asked: %d %s", name, status, answer)
		}
	}
	presses, _ := c.ui(t, "user-mallory", "--write")
	if status, answer := presses.call("OperationService/Abort", `{"operation":"`+secret+`"}`); status != http.StatusForbidden || strings.Contains(answer, "read-only") {
		t.Errorf("a button pressed without the right: %d %s", status, answer)
	}
	c.process(c.leader(t)).kill()
	if status, answer := looks.call("OperationService/Get", `{"operation":"`+secret+`"}`); status != http.StatusOK {
		t.Errorf("when the leader is killed: %d %s", status, answer)
	}
	if status, answer := writes.call("OperationService/Suspend", `{"operation":"`+secret+`"}`); status != http.StatusOK {
		t.Errorf("the operator's change: %d %s", status, answer)
	}
	// Ctrl-C ends it.
	if err := process.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := process.exit(t); code != 0 {
		t.Errorf("exit code %d after Ctrl-C:\n%s", code, process.printed())
	}
}

// team is a gateway with an issuer, as a test's browsers reach it.
type team struct {
	*process
	c      *cluster
	issuer *oidctest.Issuer
	origin string
	roots  *x509.CertPool
}

// gateway starts weir gateway with a certificate for browsers of its own.
func (c *cluster) gateway(t *testing.T) *team {
	t.Helper()
	if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "gateway", "--name", "gw1"); code != 0 {
		t.Fatal(printed)
	}
	tm := &team{c: c, issuer: oidctest.New(t)}
	cert, key := filepath.Join(c.dir, "browser.crt"), filepath.Join(c.dir, "browser.key")
	tm.roots = oidctest.SelfSigned(t, cert, key)
	secret := filepath.Join(c.dir, "secret")
	if err := os.WriteFile(secret, []byte(oidctest.ClientSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePorts(t, "127.0.0.1", 1)[0]
	tm.origin = fmt.Sprintf("https://127.0.0.1:%d", port)
	tm.process = c.launch("gateway", c.launcher, "gateway", "--addresses", c.addresses["r1"]+","+c.addresses["r2"]+","+c.addresses["r3"],
		"--credentials", c.certs("gateway-gw1"), "--oidc", tm.issuer.URL, "--client-id", oidctest.ClientID, "--client-secret-file", secret,
		"--url", tm.origin, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--tls-cert", cert, "--tls-key", key)
	return tm
}

// browser returns a browser at an address of this machine.
func (tm *team) browser(t *testing.T, from string) *viewer {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: tm.roots}}}
	t.Cleanup(client.CloseIdleConnections)
	return &viewer{t: t, client: client, origin: tm.origin}
}

// TestGateway (W2) signs people in at a gateway of a real cluster: their groups give them rights, a stolen
// cookie gives none, and who is signed in goes on while the issuer is down and the leader is killed.
func TestGateway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	c.cli(t, "group", "add", "ads-team")
	c.cli(t, "pool", "create", "ads")
	c.cli(t, "pool", "acl", "<Root>", "--revoke", "*=use")
	c.cli(t, "pool", "acl", "ads", "--allow", "group:ads-team=read,manage")
	operation := c.start(t, one(small(1, "run", c.folder(t), "1h"), object{"title": "secret plan", "pool": "ads"}))
	tm := c.gateway(t)
	tm.says(t, "ready: ")
	tm.issuer.Person(oidctest.Claims{"preferred_username": "ann", "groups": []string{"ads-team", "Domain Users"}})
	ann := tm.browser(t, "127.0.0.1")
	if got := ann.who(); got != "401" {
		t.Errorf("before signing in: %s", got)
	}
	if status, page := ann.ask(http.MethodGet, "/login?to=/session", ""); status != http.StatusOK || !strings.Contains(page, `"name":"ann"`) {
		t.Fatalf("signing in leads to %d %s\n%s", status, page, tm.printed())
	}
	tm.issuer.Person(oidctest.Claims{"preferred_username": "bob", "groups": []string{"others"}})
	bob := tm.browser(t, "127.0.0.1")
	bob.ask(http.MethodGet, "/login", "")
	if a, b := ann.who(), bob.who(); a != "user ann of ads-team write true" || b != "user bob of others write true" {
		t.Errorf("signed in are %q and %q", a, b)
	}
	if status, answer := ann.call("OperationService/List", "{}"); status != http.StatusOK || !strings.Contains(answer, "secret plan") {
		t.Errorf("who may read: %d %s", status, answer)
	}
	if status, answer := bob.call("OperationService/List", "{}"); status != http.StatusOK || strings.Contains(answer, "secret plan") {
		t.Errorf("who may not read: %d %s", status, answer)
	}
	if status, answer := bob.call("OperationService/Suspend", `{"operation":"`+operation+`"}`); status != http.StatusForbidden {
		t.Errorf("who may not manage: %d %s", status, answer)
	}
	if status, answer := ann.call("AccessService/Revoke", `{"role":"user","name":"bob"}`); status != http.StatusForbidden {
		t.Errorf("what operators alone may: %d %s", status, answer)
	}
	// The cookie of ann, from another address.
	thief := tm.browser(t, "127.0.0.2")
	origin, err := url.Parse(tm.origin)
	if err != nil {
		t.Fatal(err)
	}
	thief.client.Jar.SetCookies(origin, ann.client.Jar.Cookies(origin))
	if got := thief.who(); got != "401" {
		t.Errorf("the thief is %s", got)
	}
	tm.issuer.Down(true)
	c.process(c.leader(t)).kill()
	if status, answer := ann.call("OperationService/Get", `{"operation":"`+operation+`"}`); status != http.StatusOK || !strings.Contains(answer, "secret plan") {
		t.Errorf("when the leader is killed and the issuer is down: %d %s", status, answer)
	}
	until(t, "ann suspends the operation", func() string {
		if status, answer := ann.call("OperationService/Suspend", `{"operation":"`+operation+`"}`); status != http.StatusOK {
			return answer
		}
		return ""
	})
	ann.ask(http.MethodGet, "/logout", "")
	if got := ann.who(); got != "401" {
		t.Errorf("signed out: %s", got)
	}
	if err := tm.stop(); err != nil {
		t.Error(err)
	}
}
