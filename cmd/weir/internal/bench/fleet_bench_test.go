package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/actors/fleet"
	"weir/messages/apipb"
	"weir/scheduling/resource"
)

const (
	// crowd is how many jobs there are.
	crowd = 10_000
	// leaves are the pools that share them.
	leaves = 2
	// hosts are the nodes whose jobs complete at once.
	hosts = 20
	// goalRate is how many jobs a second a cluster is to start, or to run.
	goalRate = 10_000
)

// BenchmarkAllocations is W1 through a cluster: two leaf pools, an operation each, 5,000
// alike jobs an operation, room for all. It counts from the first ask, the call that
// submits, to the 10,000th job of which an agent has been told, which is after its grant
// was committed by raft, with fsync. Nodes are simulated, in one process, each with a
// connection and a certificate of its own: two cores take a minute to bring up 500.
func BenchmarkAllocations(b *testing.B) {
	for _, nodes := range []int{500} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := startClusterOf(b, "default", 3, 0)
			for i := range leaves {
				if _, err := c.CreatePool(b.Context(), &apipb.Pool{Name: fmt.Sprint("leaf", i)}); err != nil {
					b.Fatal(err)
				}
			}
			fleet := c.startFleet(b, nodes, nil)
			ctx, cancel := context.WithTimeout(b.Context(), patience)
			defer cancel()
			awaited := 0
			for b.Loop() {
				began := time.Now()
				var operations [leaves]string
				for i := range operations {
					operations[i] = c.ask(b, fmt.Sprint("leaf", i), crowd/leaves)
				}
				awaited += crowd
				if err := fleet.AwaitStarted(ctx, awaited); err != nil {
					b.Fatal(err)
				}
				rate := crowd / time.Since(began).Seconds()
				c.abort(b, operations[:])
				b.ReportMetric(rate, "allocations/s")
				b.ReportMetric(goalRate, "goal-allocations/s")
				tell("W1: cluster, %d simulated nodes: %d allocations of %d operations: %.0f/s; goal %d/s", nodes, crowd, leaves, rate, goalRate)
			}
		})
	}
}

// BenchmarkSimulatedJobs is N3: the jobs a second of an operation of 10,000, whose agents
// start no process. It is N2 without processes and agents' journals: a job is granted,
// its spec is asked for, its end is reported and counted.
func BenchmarkSimulatedJobs(b *testing.B) {
	c := startClusterOf(b, "default", 3, 0)
	c.startFleet(b, hosts, func() time.Duration { return 0 })
	c.complete(b, c.ask(b, "", crowd/10), crowd/10)
	for b.Loop() {
		var took times
		before := c.spent(b)
		for range rounds {
			began := time.Now()
			c.complete(b, c.ask(b, "", crowd), crowd)
			took = append(took, time.Since(began))
		}
		spent := c.spent(b).since(before)
		rate := crowd / took.percentile(50).Seconds()
		perJob := func(d time.Duration) float64 { return float64(d.Microseconds()) / (crowd * rounds) }
		b.ReportMetric(rate, "jobs/s")
		b.ReportMetric(goalRate, "goal-jobs/s")
		b.ReportMetric(perJob(spent.replicas), "replicas-cpu-µs/job")
		b.ReportMetric(perJob(spent.nodes), "nodes-cpu-µs/job")
		tell("N3: %d jobs that start no process, on %d simulated nodes: %.0f jobs/s; goal %d jobs/s; a job takes %.0f µs of processors in all replicas, %.0f µs in its node",
			crowd, hosts, rate, goalRate, perJob(spent.replicas), perJob(spent.nodes))
	}
}

// ask starts an operation of so many jobs of 1 core and 10 MiB.
func (c *cluster) ask(b *testing.B, pool string, jobs int) (operation string) {
	b.Helper()
	spec, err := structpb.NewStruct(map[string]any{"tasks": map[string]any{"nothing": map[string]any{
		"job_count": jobs, "command": []any{"/bin/true"}, "cpu_limit": 1, "memory_limit": "10MiB",
	}}})
	if err != nil {
		b.Fatal(err)
	}
	if pool != "" {
		spec.Fields["pool"] = structpb.NewStringValue(pool)
	}
	started, err := c.StartOperation(b.Context(), &apipb.StartRequest{Spec: spec})
	if err != nil {
		b.Fatal(err)
	}
	return started.GetOperationId()
}

// abort ends operations, and waits until their jobs have gone.
func (c *cluster) abort(b *testing.B, operations []string) {
	b.Helper()
	for _, operation := range operations {
		if err := c.AbortOperation(b.Context(), operation, "measured", 0); err != nil {
			b.Fatal(err)
		}
		if _, err := c.WaitOperation(b.Context(), operation); err != nil {
			b.Fatal(err)
		}
	}
}

// startFleet starts so many simulated nodes, of which each has room for 100 jobs. They end before the cluster. Without
// a time that jobs last they run until they are told to leave.
func (c *cluster) startFleet(b *testing.B, nodes int, lasts func() time.Duration) *fleet.Fleet {
	b.Helper()
	config := fleet.Config{Version: "simulated", Resources: resource.Amounts{UserSlots: 100, CPU: resource.Cores(100), Memory: 2600 << 20}, Lasts: lasts}
	for i := range nodes {
		config.Names = append(config.Names, fmt.Sprintf("simulated-%d", i+1))
	}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	started, err := c.StartFleet(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(started.Close)
	return started
}
