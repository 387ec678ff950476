package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/cmd/poll"
	"weir/messages/apipb"
)

// mixedLoad is what a cluster does while its processes are replaced.
type mixedLoad struct {
	*mixed
	// steady are the jobs, by operation, that run all the time, and their processes. They witness
	// in dirs, and end when the file release exists.
	steady  map[string]map[string]int64
	dirs    map[string]string
	release string
	// mixture, gang and service are the operations. The service does not end by itself.
	mixture, gang, service string
	// maps are map operations, by their output.
	maps map[string]string

	client *client.Client
	stop   context.CancelFunc
	done   chan struct{}
	// submitted are operations of one job, started one after another. failure is why one could not
	// be. Both are written before done is closed.
	submitted []string
	failure   error
}

const (
	// shortJobs and longJobs are those of the vanilla operation: short ones all the time, and some
	// that outlive all.
	shortJobs, longJobs = 200, 2
	gangJobs            = 3
	serviceJobsWanted   = 2
	// mapJobs read mapLines each.
	mapJobs, mapLines = 24, 1000
	// submitPause is the pause between two operations of one job.
	submitPause = 250 * time.Millisecond
)

// startLoad starts a vanilla operation, a gang and a service, and submits more all the time.
func (m *mixed) startLoad(t *testing.T) *mixedLoad {
	t.Helper()
	l := &mixedLoad{mixed: m, steady: map[string]map[string]int64{}, dirs: map[string]string{}, maps: map[string]string{}, done: make(chan struct{})}
	l.release = filepath.Join(m.folder(t), "release")
	l.mixture = l.starts(t, longJobs, func(dir string) object {
		return object{"tasks": object{
			"short": small(shortJobs, "run", dir, "500ms").with("cpu_limit", 4), "long": small(longJobs, "run", dir, l.release),
		}}
	})
	l.gang = l.starts(t, gangJobs, func(dir string) object {
		return one(small(gangJobs, "run", dir, l.release).with("gang_options", object{}))
	})
	l.service = l.starts(t, serviceJobsWanted, func(dir string) object {
		for cookie := range serviceJobsWanted {
			put(t, filepath.Join(dir, fmt.Sprintf("serve-%d.up", cookie)), "")
		}
		return object{"tasks": object{"serve": leaving(serviceJobsWanted, "answer", dir).with("port_count", 1).with("restart_completed_jobs", true).
			with("readiness", object{"http": "/ready", "period": "200ms"})}}
	})
	l.client = m.operator(t)
	var ctx context.Context
	ctx, l.stop = context.WithCancel(t.Context())
	go l.submit(ctx)
	t.Cleanup(func() { l.stop(); <-l.done })
	return l
}

// starts starts an operation, and waits until its steady jobs run.
func (l *mixedLoad) starts(t *testing.T, jobs int, spec func(dir string) object) string {
	t.Helper()
	dir := l.folder(t)
	operation := l.start(t, spec(dir))
	l.dirs[operation] = dir
	until(t, "steady jobs run", func() string {
		l.steady[operation] = l.running(t, operation)
		if len(l.steady[operation]) == jobs {
			return ""
		}
		return fmt.Sprintf("%d do\n%s", len(l.steady[operation]), l.describe(t, operation))
	})
	return operation
}

// running are the processes of the steady jobs that run, by job.
func (l *mixedLoad) running(t *testing.T, operation string) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for _, job := range l.jobs(t, operation, "running") {
		if job.GetTask() != "short" && job.GetPid() != 0 {
			found[job.GetId()] = job.GetPid()
		}
	}
	return found
}

// submit starts operations until ctx is done.
func (l *mixedLoad) submit(ctx context.Context) {
	defer close(l.done)
	spec, err := structpb.NewStruct(map[string]any{"tasks": map[string]any{"one": map[string]any{
		"job_count": 1, "command": []any{"true"}, "cpu_limit": 0.1, "memory_limit": "64MiB",
	}}})
	for l.failure = err; l.failure == nil && poll.Pause(ctx, submitPause) == nil; {
		// It is not given up with ctx: whether it was accepted would not be known.
		var started *apipb.StartResponse
		if started, l.failure = l.client.StartOperation(context.WithoutCancel(ctx), &apipb.StartRequest{Spec: spec}); l.failure == nil {
			l.submitted = append(l.submitted, started.GetOperationId())
		}
	}
}

// startMap starts a map operation that goes on for a while.
func (l *mixedLoad) startMap(t *testing.T) {
	t.Helper()
	dir := l.folder(t)
	out := filepath.Join(dir, "out")
	spec := reading(out, "sleep 2; sed s/line/row/", write(t, dir+"/in", numbered(0, mapJobs*mapLines)))
	spec["mapper"] = spec["mapper"].(object).with("cpu_limit", 8)
	l.maps[out] = l.start(t, spec.with("job_count", mapJobs))
}

// unharmed checks that the steady jobs are the processes that they were.
func (l *mixedLoad) unharmed(t *testing.T) {
	t.Helper()
	for operation, had := range l.steady {
		if now := l.running(t, operation); !maps.Equal(now, had) {
			t.Errorf("processes %v run, want %v\n%s", now, had, l.describe(t, operation))
		}
	}
	until(t, "instances are ready", func() string {
		_, ready := l.readyOf(t, l.service)
		return fewer(ready, serviceJobsWanted)
	})
}

// finish ends the load, and checks that nothing of it failed, was aborted or ran twice.
func (l *mixedLoad) finish(t *testing.T) {
	t.Helper()
	l.unharmed(t)
	l.stop()
	<-l.done
	if l.failure != nil {
		t.Error(l.failure)
	}
	write(t, l.release, "")
	l.ended(t, l.mixture, shortJobs+longJobs)
	l.ended(t, l.gang, gangJobs)
	for _, operation := range []string{l.mixture, l.gang} {
		for cookie, lines := range witnessed(t, l.dirs[operation]) {
			if len(lines) != 2 || lines[0].what != "begin" || lines[1].what != "end" || lines[0].pid != lines[1].pid {
				t.Errorf("%s did not run exactly once: %v", cookie, lines)
			}
		}
	}
	if p := l.get(t, l.service).GetProgress(); p.GetAborted() != 0 || p.GetFailed() != 0 || p.GetRestarted() != 0 {
		t.Errorf("service: %v, want nothing aborted, failed or restarted", p)
	}
	l.ask(t, "OperationService/Complete", object{"operation": l.service}, &apipb.CompleteOperationResponse{})
	l.endsWithin(t, patience, l.service, "completed")
	want := strings.ReplaceAll(numbered(0, mapJobs*mapLines), "line", "row")
	for out, operation := range l.maps {
		l.ended(t, operation, mapJobs)
		if got := read(t, out); got != want {
			t.Errorf("the output of %s has %d bytes, want %d, or others", operation, len(got), len(want))
		}
	}
	for _, operation := range l.submitted {
		l.ended(t, operation, 1)
	}
}

// ended waits for the end of an operation, each of whose jobs ran once.
func (l *mixedLoad) ended(t *testing.T, operation string, jobs int64) {
	t.Helper()
	if p := l.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != jobs || p.GetAborted() != 0 || p.GetFailed() != 0 {
		t.Errorf("%s: %v, want %d completed, none aborted or failed\n%s", operation, p, jobs, l.describe(t, operation))
	}
}
