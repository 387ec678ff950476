package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

const (
	// interrupts is how many jobs are interrupted, half of them after a replica was
	// killed and started again.
	interrupts = 200
	// missed is how many more are interrupted while it is away.
	missed = 5
	// services is how many jobs there are at once, each of which leaves when it is told
	// to, and runs again.
	services = 20
)

// BenchmarkInterruptionSignals is I4: from the call that interrupts a job to the moment
// at which those who watch the operation's instances have been told that the job is not
// to be sent work, at every one of five replicas, one of which is killed half way. What
// bounds it: the order is committed, an fsync at the leader and at two followers; then
// replicas hear of it by the log or by gossip, whichever is sooner, and let what changes
// within 5 ms gather for those who watch. The API is how to see it from outside:
// weir op instances --watch with the address of one replica.
func BenchmarkInterruptionSignals(b *testing.B) {
	const goal, replicas = time.Second, 5
	c := startClusterOf(b, "default", replicas, agents)
	for b.Loop() {
		w := c.watchServices(b, "")
		var known, answered times
		interrupt := func(count int) {
			for range count {
				k, a := w.interrupt(b)
				known, answered = append(known, k), append(answered, a)
			}
		}
		interrupt(interrupts / 2)
		late := w.restart(b)
		interrupt(interrupts / 2)
		fresh := known[interrupts/2:]
		w.close(b)
		b.ReportMetric(millis(known.percentile(50)), "p50-ms")
		b.ReportMetric(millis(known.percentile(99)), "p99-ms")
		b.ReportMetric(millis(known.worst()), "worst-ms")
		b.ReportMetric(millis(goal), "goal-p99-ms")
		tell("I4: %d interrupts, until every one of %d replicas tells of them: p50 %.1f ms, p99 %.1f ms, worst %.1f ms, goal p99 %.0f ms; the call itself: p50 %.1f ms",
			len(known), replicas, millis(known.percentile(50)), millis(known.percentile(99)), millis(known.worst()), millis(goal), millis(answered.percentile(50)))
		tell("I4: with one of them freshly restarted: p50 %.1f ms, p99 %.1f ms; it told of the %d interrupts that it had missed %.0f ms after it was asked",
			millis(fresh.percentile(50)), millis(fresh.percentile(99)), missed, millis(late))
	}
}

// watched is an operation whose instances are watched at each replica.
type watched struct {
	*cluster
	operation string
	ctx       context.Context
	end       context.CancelFunc
	watchers  sync.WaitGroup

	mu sync.Mutex
	// live are the jobs that the replica at an address tells to be live and ready; told is when
	// it first told of another that it is not.
	live map[string]map[string]bool
	told map[string]map[string]time.Time
	// heard is closed with the next news.
	heard chan struct{}
}

// watchServices starts an operation of jobs that do something at first and leave when they are
// told to, and waits until every replica tells that all are live.
func (c *cluster) watchServices(b *testing.B, first string) *watched {
	b.Helper()
	spec, err := structpb.NewStruct(map[string]any{"tasks": map[string]any{"serve": map[string]any{
		"job_count": services, "shell": true, "command": first + `trap "exit 0" TERM; sleep 3600 & wait`, "interruption_signal": "SIGTERM", "signal_root_process_only": true,
		"restart_completed_jobs": true, "port_count": 1, "cpu_limit": 0.1, "memory_limit": "64MiB",
	}}})
	if err != nil {
		b.Fatal(err)
	}
	started, err := c.StartOperation(b.Context(), &apipb.StartRequest{Spec: spec})
	if err != nil {
		b.Fatal(err)
	}
	w := &watched{cluster: c, operation: started.GetOperationId(), live: map[string]map[string]bool{}, told: map[string]map[string]time.Time{}, heard: make(chan struct{})}
	w.ctx, w.end = context.WithCancel(b.Context())
	config, err := c.Settings.Config()
	if err != nil {
		b.Fatal(err)
	}
	for _, address := range c.Settings.Addresses {
		w.told[address] = map[string]time.Time{}
		// The client would go on at another replica.
		alone := apipbconnect.NewOperationServiceClient(config.HTTP, config.URL(address))
		w.watchers.Go(func() { w.watch(address, alone) })
	}
	w.until(b, "every replica tells of all jobs", func() bool {
		for address := range w.told {
			if len(w.live[address]) < services {
				return false
			}
		}
		return true
	})
	return w
}

// watch hears what one replica tells, and asks again when it is away, or does not know
// the operation yet.
func (w *watched) watch(address string, alone apipbconnect.OperationServiceClient) {
	for w.ctx.Err() == nil {
		stream, err := alone.WatchInstances(w.ctx, connect.NewRequest(&apipb.WatchInstancesRequest{Operation: w.operation}))
		for err == nil && stream.Receive() {
			w.take(address, readyOf(stream.Msg().GetInstances()), time.Now())
		}
		w.take(address, nil, time.Now())
		select {
		case <-w.ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// take takes which jobs are told of at an address, and whether they are ready.
func (w *watched) take(address string, ready map[string]bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.told[address]
	live := map[string]bool{}
	for job, isReady := range ready {
		if isReady {
			live[job] = true
			delete(told, job)
		} else if told[job].IsZero() {
			told[job] = now
		}
	}
	w.live[address] = live
	close(w.heard)
	w.heard = make(chan struct{})
}

// readyOf tells whether instances are ready.
func readyOf(instances []*apipb.Instance) map[string]bool {
	ready := map[string]bool{}
	for _, instance := range instances {
		ready[instance.GetJobId()] = instance.GetReady()
	}
	return ready
}

// until waits for what follows from what the replicas tell.
func (w *watched) until(b *testing.B, what string, done func() bool) {
	b.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		ok, heard := done(), w.heard
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-heard:
		case <-limit:
			b.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// next returns a job that every replica tells to be live.
func (w *watched) next(b *testing.B) (job string) {
	b.Helper()
	w.until(b, "a job is live at all replicas that are up", func() bool {
		job = ""
		for candidate := range w.live[w.first()] {
			everywhere := true
			for _, live := range w.live {
				everywhere = everywhere && (len(live) == 0 || live[candidate])
			}
			if everywhere {
				job = candidate
				return true
			}
		}
		return false
	})
	return job
}

// first returns the address of a replica that tells something.
func (w *watched) first() string {
	for address, live := range w.live {
		if len(live) > 0 {
			return address
		}
	}
	return ""
}

// interrupt interrupts a job, and returns after what time every replica has told of it,
// and after what time the call was answered.
func (w *watched) interrupt(b *testing.B) (known, answered time.Duration) {
	b.Helper()
	job := w.next(b)
	began := time.Now()
	if _, err := w.InterruptJob(b.Context(), job, "", 0); err != nil {
		b.Fatal(err)
	}
	answered = time.Since(began)
	w.until(b, "every replica tells of job "+job, func() bool {
		known = 0
		for _, told := range w.told {
			at, ok := told[job]
			if !ok {
				return false
			}
			known = max(known, at.Sub(began))
		}
		return true
	})
	return known, answered
}

// restart kills a replica that does not lead, interrupts jobs while it is away, starts it
// again, and returns how long after its first answer it has told of all of them.
func (w *watched) restart(b *testing.B) (late time.Duration) {
	b.Helper()
	leader := w.whole(b)
	name, address := "", ""
	for i, candidate := range w.Settings.Addresses {
		if replica := fmt.Sprint("r", i+1); replica != leader {
			name, address = replica, candidate
		}
	}
	w.kill(b, name)
	w.until(b, "the killed replica is silent", func() bool { return len(w.live[address]) == 0 })
	var jobs []string
	for range missed {
		job := w.next(b)
		if _, err := w.InterruptJob(b.Context(), job, "", 0); err != nil {
			b.Fatal(err)
		}
		w.until(b, "all others tell of job "+job, func() bool {
			for other, told := range w.told {
				if other != address && told[job].IsZero() {
					return false
				}
			}
			return true
		})
		jobs = append(jobs, job)
	}
	w.revive(b, name)
	var first time.Time
	w.until(b, "the replica tells of what it has missed", func() bool {
		now := time.Now()
		if len(w.live[address]) > 0 && first.IsZero() {
			first = now
		}
		for _, job := range jobs {
			if first.IsZero() || w.live[address][job] {
				return false
			}
		}
		late = now.Sub(first)
		return true
	})
	return late
}

// close ends the operation and those who watch it.
func (w *watched) close(b *testing.B) {
	b.Helper()
	w.end()
	w.watchers.Wait()
	if err := w.AbortOperation(b.Context(), w.operation, "measured", 0); err != nil {
		b.Fatal(err)
	}
	if _, err := w.WaitOperation(b.Context(), w.operation); err != nil {
		b.Fatal(err)
	}
}
