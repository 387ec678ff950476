package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/api/discovery"
)

// words is how many times an instance says that it is ready, or not.
const words = 200

// BenchmarkReadinessWords is I4: from the moment at which an instance says on its socket that
// it is ready, or not, to that at which those who watch the operation's instances have been
// told of it, at every one of five replicas and inside another job. Its agent tells its
// controller, which tells the other replicas by gossip; no commit is waited for.
func BenchmarkReadinessWords(b *testing.B) {
	const goal, replicas = 100 * time.Millisecond, 5
	c := startClusterOf(b, "default", replicas, agents)
	dir := b.TempDir()
	for b.Loop() {
		// Each job says where its socket is.
		w := c.watchServices(b, fmt.Sprintf(`echo "$WEIR_DISCOVERY" >%s/$WEIR_JOB_ID.new && mv %[1]s/$WEIR_JOB_ID.new %[1]s/$WEIR_JOB_ID; `, dir))
		sockets := socketsIn(b, w, dir)
		w.listen(sockets[0].path)
		var known times
		for i := range words {
			known = append(known, w.say(b, sockets[1+i/2%(len(sockets)-1)], i%2 == 1))
		}
		w.close(b)
		b.ReportMetric(millis(known.percentile(50)), "p50-ms")
		b.ReportMetric(millis(known.percentile(99)), "p99-ms")
		b.ReportMetric(millis(known.worst()), "worst-ms")
		b.ReportMetric(millis(goal), "goal-p99-ms")
		tell("I4: %d words of instances, until every one of %d replicas and a job tell of them: p50 %.1f ms, p99 %.1f ms, worst %.1f ms, goal p99 %.0f ms",
			len(known), replicas, millis(known.percentile(50)), millis(known.percentile(99)), millis(known.worst()), millis(goal))
	}
}

// socket is where a job asks its agent.
type socket struct{ job, path string }

// socketsIn returns the sockets of all jobs, which write where they are.
func socketsIn(b *testing.B, w *watched, dir string) (sockets []socket) {
	b.Helper()
	w.until(b, "all jobs have said where their sockets are", func() bool {
		sockets = nil
		for job := range w.live[w.first()] {
			if path, err := os.ReadFile(filepath.Join(dir, job)); err == nil {
				sockets = append(sockets, socket{job, strings.TrimSpace(string(path))})
			}
		}
		return len(sockets) == services
	})
	slices.SortFunc(sockets, func(a, b socket) int { return strings.Compare(a.job, b.job) })
	return sockets
}

// inside is under what those are kept who are told inside a job, as replicas are by their
// addresses.
const inside = "inside a job"

// listen hears what a job hears of its peers.
func (w *watched) listen(path string) {
	w.mu.Lock()
	w.told[inside] = map[string]time.Time{}
	w.mu.Unlock()
	w.watchers.Go(func() {
		for change := range discovery.At(path).Watch(w.ctx) {
			if change.Peers == nil {
				continue
			}
			ready := map[string]bool{}
			for _, instance := range change.Peers.Instances {
				ready[instance.Job] = instance.Ready
			}
			w.take(inside, ready, time.Now())
		}
	})
}

// say has an instance say that it is ready, or not, and returns after what time everybody has
// been told of it.
func (w *watched) say(b *testing.B, of socket, ready bool) time.Duration {
	b.Helper()
	word := discovery.SayNotReady
	if ready {
		word = discovery.SayReady
	}
	began := time.Now()
	if err := discovery.At(of.path).Say(b.Context(), word); err != nil {
		b.Fatal(err)
	}
	w.until(b, fmt.Sprintf("everybody tells that job %s is %s", of.job, word), func() bool {
		for _, live := range w.live {
			if live[of.job] != ready {
				return false
			}
		}
		return len(w.live) == len(w.told)
	})
	return time.Since(began)
}
