package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/messages/apipb"
)

// holdSilent opens so many connections to the replicas from an address without a word, and again those
// that are closed, until release is called.
func (c *cluster) holdSilent(t *testing.T, from string, count int) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var holding, open sync.WaitGroup
	for i := range count {
		open.Add(1)
		holding.Go(func() {
			opened := sync.OnceFunc(open.Done)
			defer opened()
			again := time.NewTicker(glance)
			defer again.Stop()
			for ; ctx.Err() == nil; <-again.C {
				conn, err := dialer.DialContext(ctx, "tcp", c.addresses[replicaNames[i%len(replicaNames)]])
				if err != nil {
					continue // A replica that is killed.
				}
				opened()
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.ReadAll(conn)
				stop()
				_ = conn.Close()
			}
		})
	}
	open.Wait()
	return func() { cancel(); holding.Wait() }
}

// newcomer makes a call at a replica over a connection of its own.
func (c *cluster) newcomer(t *testing.T, replica string) error {
	t.Helper()
	client, err := c.httpClient("user-ann")
	if err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, answer, err := c.post(ctx, "user-ann", replica, "OperationService/List", "{}")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, answer)
	}
	return err
}

// TestSilentStrangers (T5) holds three thousand silent connections from one address. Every replica answers new
// clients, the next leader is elected and accepts an operation, and the agent runs it.
func TestSilentStrangers(t *testing.T) {
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	defer c.holdSilent(t, "127.254.254.254", 3000)()
	for range 5 {
		for _, replica := range replicaNames {
			began := time.Now()
			if err := c.newcomer(t, replica); err != nil {
				t.Errorf("%s keeps a client out: %v", replica, err)
			}
			t.Logf("%s answered a new client within %s", replica, time.Since(began).Round(time.Millisecond))
		}
	}
	killed := c.leader(t)
	c.process(killed).kill()
	if next := c.leader(t); next == killed {
		t.Fatalf("%s leads though it was killed", next)
	}
	c.startReplica(killed)
	c.ends(t, c.start(t, one(small(3, "run", c.folder(t), "10ms"))), "completed")
	c.ready(t, 1)
	until(t, "replicas count whom they refused", func() string {
		for _, replica := range replicaNames {
			figures, err := c.figures(t, "user-ann", c.replicaURL(replica))
			if err != nil {
				return err.Error()
			}
			if figures[`weir_connections_refused_total{reason="crowded"}`]+figures[`weir_connections_refused_total{reason="silent"}`] == 0 {
				return replica + " has refused nobody"
			}
		}
		return ""
	})
}

// TestGreedyUser (T5) has one user make two thousand calls at once and watch five hundred times at one replica, again and
// again. Another user's calls are answered meanwhile, and watches have their first message.
func TestGreedyUser(t *testing.T) {
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	operation := c.start(t, one(small(1, "run", c.folder(t), "10m")))
	defer c.ask(t, "OperationService/Abort", object{"operation": operation}, &apipb.AbortOperationResponse{})
	c.runs(t, operation, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var greedy sync.WaitGroup
	defer func() { cancel(); greedy.Wait() }()
	replica := replicaNames[0]
	var mu sync.Mutex
	refusals := map[string]int{}
	flood := func(count int, method, body string) {
		for range count {
			greedy.Go(func() {
				for ctx.Err() == nil {
					status, answer, err := c.post(ctx, "operator-admin", replica, method, body)
					if err != nil && !errors.Is(err, context.Canceled) {
						continue
					}
					if status == http.StatusTooManyRequests {
						mu.Lock()
						refusals[string(answer)]++
						mu.Unlock()
					}
				}
			})
		}
	}
	flood(2000, "OperationService/List", "{}")
	flood(500, "OperationService/Wait", fmt.Sprintf(`{"operation": %q, "timeout_millis": 5000}`, operation))
	until(t, "the greedy user is refused", func() string {
		mu.Lock()
		defer mu.Unlock()
		for answer := range refusals {
			if strings.Contains(answer, "of operator admin in flight on replica "+replica) {
				return ""
			}
		}
		return fmt.Sprint(refusals)
	})
	for range 20 {
		began := time.Now()
		if err := c.newcomer(t, replica); err != nil {
			t.Fatalf("another user is kept out: %v", err)
		}
		t.Logf("another user was answered within %s", time.Since(began).Round(time.Millisecond))
	}
}
