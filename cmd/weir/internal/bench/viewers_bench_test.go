package bench

import (
	"bytes"
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

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/gateway/oidctest"
	"weir/cluster/identity"
	"weir/messages/apipb"
)

const (
	// viewers is how many people have the page open.
	viewers = 500
	// viewed is for how long they look.
	viewed = 20 * time.Second
	// poolsInView is how many pools a page has room for.
	poolsInView = 25
)

// call is what a page asks for again and again.
type call struct {
	every  time.Duration
	method string
	asks   proto.Message
}

// ofPools is what the page of pools asks for, once it has the curves of those in view.
func ofPools(inView []string) []call {
	const tree = "default"
	calls := []call{
		{10 * time.Second, "TreeService/List", &apipb.ListTreesRequest{}},
		{2 * time.Second, "PoolService/List", &apipb.ListPoolsRequest{Tree: tree, Brief: true, WithRoot: true}},
	}
	since := timestamppb.New(time.Now().Truncate(time.Minute).Add(-time.Minute))
	for _, pool := range inView {
		calls = append(calls, call{time.Minute, "PoolService/History", &apipb.PoolHistoryRequest{Tree: tree, Pool: pool, StepSeconds: 60, From: since}})
	}
	return calls
}

// BenchmarkViewers (W2) has 500 people, each with a session, look at the page of 50 pools through a gateway, and
// prints what replicas and gateway spend on them. Goal: replicas spend less than 10% of a core.
func BenchmarkViewers(b *testing.B) {
	for b.Loop() {
		c := startCluster(b, "default")
		pools := make([]string, 50)
		for i := range pools {
			pools[i] = fmt.Sprintf("team-%d", i)
			if _, err := c.CreatePool(b.Context(), &apipb.Pool{Name: pools[i]}); err != nil {
				b.Fatal(err)
			}
		}
		c.submit(b, 100)
		g := c.startGateway(b, viewers)
		idle := g.spentWhile(b, nil)
		cost := g.watched(b, ofPools(pools[:poolsInView])).beyond(idle)
		b.ReportMetric(cost.replicas, "replicas-%core")
		b.ReportMetric(cost.gateway, "gateway-%core")
		b.ReportMetric(cost.answers, "answers/s")
		tell("%d viewers: replicas spend %.1f%% of a core on them (goal: less than 10%%), the gateway %.1f%%; %.0f answers a second",
			viewers, cost.replicas, cost.gateway, cost.answers)
	}
}

// page is a gateway with people who are signed in.
type page struct {
	c       *cluster
	pid     int
	origin  string
	clients []*http.Client
}

// startGateway starts weir gateway before the cluster, and signs so many people in.
func (c *cluster) startGateway(b *testing.B, people int) *page {
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
	g := &page{c: c, pid: cmd.Process.Pid, origin: "https://" + address}
	for i := range people {
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

// ofViewers is what people cost: hundredths of a core, and how many answers they get a second.
type ofViewers struct{ replicas, gateway, answers float64 }

// beyond is what they cost beyond idleness.
func (o ofViewers) beyond(idle ofViewers) ofViewers {
	return ofViewers{o.replicas - idle.replicas, o.gateway - idle.gateway, o.answers}
}

// watched has all people ask for the same, each from a moment of its own on, and returns what is spent meanwhile.
func (g *page) watched(b *testing.B, calls []call) ofViewers {
	b.Helper()
	var answers, failures atomic.Int64
	cost := g.spentWhile(b, func(ctx context.Context) {
		var all sync.WaitGroup
		for i, client := range g.clients {
			for _, c := range calls {
				all.Go(func() {
					g.repeat(ctx, client, c, c.every*time.Duration(i)/time.Duration(len(g.clients)), &answers, &failures)
				})
			}
		}
		all.Wait()
	})
	if failures.Load() > 0 || answers.Load() == 0 {
		b.Errorf("%d calls were answered, %d failed", answers.Load(), failures.Load())
	}
	cost.answers = float64(answers.Load()) / viewed.Seconds()
	return cost
}

// repeat makes a call again and again, first after a while.
func (g *page) repeat(ctx context.Context, client *http.Client, c call, first time.Duration, answers, failures *atomic.Int64) {
	for next := time.NewTimer(first); ; next.Reset(c.every) {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		switch err := g.ask(ctx, client, c); {
		case ctx.Err() != nil:
		case err != nil:
			failures.Add(1)
		default:
			answers.Add(1)
		}
	}
}

// ask makes a call as a browser does.
func (g *page) ask(ctx context.Context, client *http.Client, c call) error {
	body, err := proto.Marshal(c.asks)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.origin+"/weir.api.v1."+c.method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/proto")
	request.Header.Set("Connect-Protocol-Version", "1")
	request.Header.Set("Origin", g.origin)
	// A browser unpacks it at its own cost.
	request.Header.Set("Accept-Encoding", "gzip")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", c.method, answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// spentWhile returns what is spent while work runs, or while nothing happens.
func (g *page) spentWhile(b *testing.B, work func(context.Context)) ofViewers {
	b.Helper()
	before, own := g.c.spent(b), processorTime(b, g.pid)
	ctx, cancel := context.WithTimeout(b.Context(), viewed)
	defer cancel()
	if work != nil {
		work(ctx)
	}
	<-ctx.Done()
	return ofViewers{replicas: percent(g.c.spent(b).since(before).replicas, viewed), gateway: percent(processorTime(b, g.pid)-own, viewed)}
}
