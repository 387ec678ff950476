package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/messages/apipb"
)

// burst is how many operations are submitted at once.
const burst = 10_000

// heapLimit is what a replica's heap may come to meanwhile. The operations
// themselves take some 50 MiB of it, the latest entries of the log 32 MiB, the calls that are let
// in at once and the log entries on their way the rest; half of all is garbage.
const heapLimit = 896 << 20

// TestBurst submits far more at once than replicas let in. What they turn away comes
// again, nothing that was acknowledged is lost, nothing is there twice, and memory
// stays within its bounds.
func TestBurst(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand submissions")
	}
	c := newCluster(t, here)
	c.stopReplicas(t)
	for _, name := range replicaNames {
		c.launch(name, c.launcher, append(c.replicaFlags(name), "--max-operations", fmt.Sprint(2*burst))...)
	}
	c.ready(t, 0)
	settings := client.Settings{Addresses: []string{c.addresses["r1"], c.addresses["r2"], c.addresses["r3"]}, Credentials: c.certs("operator-admin")}
	cfg, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	// A machine that is busy with other things takes minutes for what takes seconds.
	cfg.Deadline = 6 * patience
	users, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	room := 2 * burst
	if _, err := users.CreatePool(t.Context(), &apipb.Pool{Name: "burst", Options: options(t, object{"max_operation_count": room})}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	peak := make(chan float64, 1)
	go func() { peak <- c.watchHeaps(ctx, t) }()
	acknowledged := c.submit(t, users)
	cancel()
	if most := <-peak; most > heapLimit {
		t.Errorf("a replica's heap grew to %.0f MiB, the limit is %d MiB", most/(1<<20), heapLimit>>20)
	} else {
		t.Logf("a replica's heap grew to %.0f MiB", most/(1<<20))
	}
	c.allThere(t, users, acknowledged)
	refused := 0.0
	for _, name := range replicaNames {
		var figures map[string]float64
		until(t, name+" shows its metrics", func() string {
			var err error
			if figures, err = c.figures(t, "operator-admin", c.replicaURL(name)); err != nil {
				return err.Error()
			}
			return ""
		})
		for call, count := range figures {
			if strings.HasPrefix(call, `weir_api_calls_total{code="resource_exhausted"`) {
				refused += count
			}
		}
	}
	// How many depends on who is faster, this process or the replicas.
	t.Logf("%.0f calls were turned away and came again", refused)
}

func (c *cluster) stopReplicas(t testing.TB) {
	t.Helper()
	for _, name := range replicaNames {
		if err := c.process(name).stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// submit starts all operations at once and returns the ids that came back.
func (c *cluster) submit(t *testing.T, users *client.Client) map[string]bool {
	t.Helper()
	spec, err := structpb.NewStruct(map[string]any{
		"pool": "burst", "tasks": map[string]any{"t": map[string]any{"job_count": 1, "command": []any{"true"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	acknowledged := make(map[string]bool, burst)
	var failed atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range burst {
		all.Go(func() {
			answer, err := users.StartOperation(t.Context(), &apipb.StartRequest{MutationId: uuid.NewString(), Spec: spec})
			if err != nil {
				if failed.Add(1) <= 5 {
					t.Errorf("submission %d: %v", i, err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			acknowledged[answer.GetOperationId()] = true
		})
	}
	all.Wait()
	t.Logf("%d of %d submissions were acknowledged within %s", len(acknowledged), burst, time.Since(began).Round(time.Millisecond))
	if len(acknowledged) != burst {
		t.Errorf("%d of %d submissions were acknowledged", len(acknowledged), burst)
	}
	return acknowledged
}

// allThere checks that the acknowledged operations are there, and no others.
func (c *cluster) allThere(t *testing.T, users *client.Client, acknowledged map[string]bool) {
	t.Helper()
	found, after := 0, ""
	for {
		page, err := users.ListOperations(t.Context(), &apipb.ListOperationsRequest{Pool: "burst", Limit: 1000, After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range page.GetOperations() {
			found, after = found+1, op.GetId()
			if !acknowledged[op.GetId()] {
				t.Errorf("operation %s is there and nobody was told", op.GetId())
			}
			delete(acknowledged, op.GetId())
		}
		if len(page.GetOperations()) == 0 {
			break
		}
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged operations are lost; %d are there", len(acknowledged), found)
	}
}

// watchHeaps returns the most that the heap of a replica came to until ctx is done.
func (c *cluster) watchHeaps(ctx context.Context, t testing.TB) (most float64) {
	ticker := time.NewTicker(10 * glance)
	defer ticker.Stop()
	for {
		for _, name := range replicaNames {
			// A replica that has no time for this now is asked again.
			if figures, err := c.figures(t, "operator-admin", c.replicaURL(name)); err == nil {
				most = max(most, figures["go_memstats_heap_inuse_bytes"])
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return most
		}
	}
}
