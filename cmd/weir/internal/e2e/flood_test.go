package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/messages/apipb"
)

// flood makes calls of a user at all replicas, so many at once, again and again until ctx is done.
func (c *cluster) flood(ctx context.Context, running *sync.WaitGroup, count int, folder, method, body string, headers ...string) {
	for i := range count {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = c.post(ctx, folder, replicaNames[i%len(replicaNames)], method, body, headers...) // However it ends.
			}
		})
	}
}

// bomb is a request of a few KiB that unpacks to 2 MiB, and would take a hundred decoded.
func bomb(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write([]byte(`{"spec": {"tasks": [` + strings.Repeat("0,", 1_000_000) + `0]}}`)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// strangers try handshakes without a certificate of the cluster, until ctx is done.
func (c *cluster) strangers(ctx context.Context, running *sync.WaitGroup, count int, config *tls.Config) {
	for i := range count {
		running.Go(func() {
			dialer := tls.Dialer{Config: config}
			for ctx.Err() == nil {
				if conn, err := dialer.DialContext(ctx, "tcp", c.addresses[replicaNames[i%len(replicaNames)]]); err == nil {
					_, _ = conn.Read(make([]byte, 1)) // The replica closes it.
					_ = conn.Close()
				}
			}
		})
	}
}

// TestFloodOfCalls (T5) has one user make a thousand calls at once, requests that unpack to much and reads of output among them, with
// strangers at the door. The leader stays, the node stays online, and nobody
// but this user is refused.
func TestFloodOfCalls(t *testing.T) {
	c := newCluster(t, here, "n1")
	c.startAgent("n1")
	c.ready(t, 1)
	status, answer := c.answered(t, "user-ann", "r1", "OperationService/Start",
		`{"spec": {"tasks": {"loud": {"job_count": 1, "shell": true, "command": "head -c 1000000 /dev/zero; sleep 600", "memory_limit": "64MiB"}}}}`)
	var started struct {
		OperationID string `json:"operation_id"`
	}
	if err := json.Unmarshal(answer, &started); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	c.runs(t, started.OperationID, 1)
	var jobs apipb.ListJobsResponse
	c.ask(t, "JobService/List", object{"operation": started.OperationID}, &jobs)
	before, err := c.status(t.Context(), c.leader(t))
	if err != nil || len(jobs.GetJobs()) != 1 {
		t.Fatal(err, jobs.GetJobs())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	c.flood(ctx, &running, 600, "user-ann", "OperationService/List", "{}")
	c.flood(ctx, &running, 200, "user-ann", "OperationService/Start", bomb(t), "Content-Encoding", "gzip")
	c.flood(ctx, &running, 200, "user-ann", "JobService/Output", fmt.Sprintf(`{"job_id": %q, "stream": "stdout", "limit": 1048576}`, jobs.GetJobs()[0].GetId()))
	c.strangers(ctx, &running, 50, c.anonymous(t))
	for round := range 5 {
		for _, replica := range replicaNames {
			for method, body := range map[string]string{
				"OperationService/List":  "{}",
				"OperationService/Start": fmt.Sprintf(`{"mutation_id": "%d-%s", "spec": {"tasks": {"one": {"job_count": 1, "command": ["true"], "cpu_limit": 0.1, "memory_limit": "64MiB"}}}}`, round, replica),
			} {
				until(t, replica+" answers", func() string {
					status, answer, err := c.post(t.Context(), "operator-admin", replica, method, body)
					if status == http.StatusTooManyRequests {
						t.Errorf("%s refuses another user: %s", replica, answer)
					}
					if err != nil || status != http.StatusOK {
						return fmt.Sprintf("%d %s %v", status, answer, err)
					}
					return ""
				})
			}
		}
	}
	after, err := c.status(t.Context(), before.GetLeader())
	if err != nil || after.GetTerm() != before.GetTerm() || after.GetNodesOnline() != 1 {
		t.Errorf("%v: term %d, was %d; %d nodes are online, want 1", err, after.GetTerm(), before.GetTerm(), after.GetNodesOnline())
	}
	cancel()
	running.Wait()
	c.ask(t, "OperationService/Abort", object{"operation": started.OperationID}, &apipb.AbortOperationResponse{})
	c.ready(t, 1)
}
