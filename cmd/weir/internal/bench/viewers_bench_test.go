package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/gateway/oidctest"
	"weir/cluster/identity"
	"weir/messages/apipb"
)

const (
	// viewers is how many people have the page open.
	viewers = 500
	// viewed is for how long they look.
	viewed = 20 * time.Second
	// poolsEvery and treesEvery are how often the page of pools asks for them.
	poolsEvery, treesEvery = 2 * time.Second, 10 * time.Second
)

// BenchmarkViewers (W2) has 500 people, each with a session, look at the page of 50 pools through a gateway, and
// prints what replicas and gateway spend on them. Goal: replicas spend less than 10% of a core.
func BenchmarkViewers(b *testing.B) {
	for b.Loop() {
		c := startCluster(b, "default")
		for i := range 50 {
			if _, err := c.CreatePool(b.Context(), &apipb.Pool{Name: fmt.Sprintf("team-%d", i)}); err != nil {
				b.Fatal(err)
			}
		}
		c.submit(b, 100)
		g := c.startGateway(b)
		idle := c.spentWhile(b, g, nil)
		var answers, failures atomic.Int64
		looking := c.spentWhile(b, g, g.look(b, &answers, &failures))
		replicas := (looking.replicas - idle.replicas).Seconds() / viewed.Seconds()
		own := (looking.gateway - idle.gateway).Seconds() / viewed.Seconds()
		if failures.Load() > 0 || answers.Load() == 0 {
			b.Errorf("%d calls were answered, %d failed", answers.Load(), failures.Load())
		}
		b.ReportMetric(100*replicas, "replicas-%core")
		b.ReportMetric(100*own, "gateway-%core")
		b.ReportMetric(float64(answers.Load())/viewed.Seconds(), "answers/s")
		tell("%d viewers: replicas spend %.1f%% of a core on them (goal: less than 10%%), the gateway %.1f%%; %.0f answers a second",
			viewers, 100*replicas, 100*own, float64(answers.Load())/viewed.Seconds())
	}
}

// page is a gateway with 500 people who are signed in.
type page struct {
	pid     int
	origin  string
	clients []*http.Client
}

// startGateway starts weir gateway before the cluster, and signs all people in.
func (c *cluster) startGateway(b *testing.B) *page {
	b.Helper()
	authority, err := identity.OpenAuthority(filepath.Join(c.Dir, "dev", "authority"))
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	credentials, cert, key, secret := filepath.Join(dir, "gateway"), filepath.Join(dir, "b.crt"), filepath.Join(dir, "b.key"), filepath.Join(dir, "secret")
	if err := authority.Issue(credentials, identity.Identity{Role: identity.Gateway, Name: "gw1"}, nil, 0); err != nil {
		b.Fatal(err)
	}
	roots := oidctest.SelfSigned(b, cert, key)
	if err := os.WriteFile(secret, []byte(oidctest.ClientSecret), 0o600); err != nil {
		b.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	issuer := oidctest.New(b)
	cmd := exec.Command(program("weir"), "gateway", "--addresses", strings.Join(c.Settings.Addresses, ","), "--credentials", credentials, "--oidc", issuer.URL,
		"--client-id", oidctest.ClientID, "--client-secret-file", secret, "--url", "https://"+address, "--listen", address, "--tls-cert", cert, "--tls-key", key, "--log-level", "warn")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil { // It says that it is ready.
		b.Fatalf("weir gateway does not start: %v", err)
	}
	g := &page{pid: cmd.Process.Pid, origin: "https://" + address}
	for i := range viewers {
		issuer.Person(oidctest.Claims{"preferred_username": fmt.Sprintf("user-%d", i), "groups": []string{fmt.Sprintf("team-%d", i%50)}})
		jar, err := cookiejar.New(nil)
		if err != nil {
			b.Fatal(err)
		}
		client := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, IdleConnTimeout: time.Minute}}
		b.Cleanup(client.CloseIdleConnections)
		answer, err := client.Get(g.origin + "/login")
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		g.clients = append(g.clients, client)
	}
	return g
}

// look has all people look for a while, each from a moment of its own on.
func (g *page) look(b *testing.B, answers, failures *atomic.Int64) func(ctx context.Context) {
	ask := func(ctx context.Context, client *http.Client, method, body string) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.origin+"/weir.api.v1."+method, strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Origin", g.origin)
		answer, err := client.Do(request)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		switch {
		case ctx.Err() != nil:
		case err != nil || answer.StatusCode != http.StatusOK:
			failures.Add(1)
		default:
			answers.Add(1)
		}
	}
	return func(ctx context.Context) {
		var all sync.WaitGroup
		for i, client := range g.clients {
			all.Go(func() {
				first := time.NewTimer(poolsEvery * time.Duration(i) / viewers)
				defer first.Stop()
				select {
				case <-first.C:
				case <-ctx.Done():
					return
				}
				pools := time.NewTicker(poolsEvery)
				defer pools.Stop()
				for n := 0; ; n++ {
					if n%int(treesEvery/poolsEvery) == 0 {
						ask(ctx, client, "TreeService/List", "{}")
					}
					ask(ctx, client, "PoolService/List", `{"tree":"default"}`)
					select {
					case <-pools.C:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// ofViewers is what was spent while people looked.
type ofViewers struct{ replicas, gateway time.Duration }

// spentWhile returns what is spent while work runs, or while nothing happens.
func (c *cluster) spentWhile(b *testing.B, g *page, work func(context.Context)) ofViewers {
	b.Helper()
	before, own := c.spent(b), processorTime(b, g.pid)
	ctx, cancel := context.WithTimeout(b.Context(), viewed)
	defer cancel()
	if work != nil {
		work(ctx)
	}
	<-ctx.Done()
	return ofViewers{c.spent(b).since(before).replicas, processorTime(b, g.pid) - own}
}
