package bench

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/runner"
)

// proxied is how many jobs are run under a supervisor, and how many without.
const proxied = 100

// BenchmarkJobProxy is J1: by how much longer /bin/true takes under its supervisor,
// from the call that starts it to the news of its end, than by fork and exec alone;
// and how much memory a supervisor holds. What bounds it: one Go program more to load
// and to start, 5 ms of a processor; and on hosts with cgroups of version 1 the move of
// its thread into the job's groups, for which the kernel waits until every processor
// has been through its scheduler, some milliseconds in which nothing runs.
func BenchmarkJobProxy(b *testing.B) {
	const goal, goalMemory = 5 * time.Millisecond, 10 << 20
	r := openRunner(b)
	run := 0
	for b.Loop() {
		var ours, plain times
		for range proxied {
			run++
			began := time.Now()
			job := start(b, r, fmt.Sprint("job-", run), "/bin/true")
			for event := range job.Events() {
				if _, ended := event.(runner.Exited); ended {
					ours = append(ours, time.Since(began))
				}
			}
			if err := job.Release(); err != nil {
				b.Fatal(err)
			}
			began = time.Now()
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
			plain = append(plain, time.Since(began))
		}
		added := ours.percentile(50) - plain.percentile(50)
		memory := residentProxy(b, r, fmt.Sprint("memory-", run))
		b.ReportMetric(millis(added), "added-p50-ms")
		b.ReportMetric(millis(goal), "goal-ms")
		b.ReportMetric(float64(memory)/(1<<20), "resident-MiB")
		b.ReportMetric(goalMemory>>20, "goal-MiB")
		tell("J1: a supervisor adds %.1f ms to a job (p50 %.1f against %.1f), goal %.0f ms; it holds %.1f MiB, goal %d MiB",
			millis(added), millis(ours.percentile(50)), millis(plain.percentile(50)), millis(goal), float64(memory)/(1<<20), goalMemory>>20)
	}
}

func openRunner(b *testing.B) *runner.Runner {
	b.Helper()
	config := runner.DefaultConfig()
	config.Root, config.ProxyPath = b.TempDir(), program("weir-jobproxy")
	config.NodeName = fmt.Sprintf("bench-%d", os.Getpid())
	config.Cgroups = runner.DetectCgroups("/", config.NodeName)
	config.Logger = slog.New(slog.DiscardHandler)
	r, err := runner.Open(config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

func start(b *testing.B, r *runner.Runner, id string, argv ...string) *runner.Job {
	b.Helper()
	job, err := r.Start(b.Context(), runner.JobSpec{
		ID: id, Argv: argv, CPULimit: 0.1, MemoryLimit: 64 << 20, PidsLimit: 1000, Lease: time.Minute,
	})
	if err != nil {
		b.Fatal(err)
	}
	return job
}

// residentProxy returns the bytes that the supervisor of a running job holds.
func residentProxy(b *testing.B, r *runner.Runner, id string) int64 {
	b.Helper()
	job := start(b, r, id, "/bin/sleep", "60")
	var memory int64
	for event := range job.Events() {
		if _, sampled := event.(runner.Sample); sampled && memory == 0 {
			memory = residentOf(b, id)
			if err := job.Stop("measured", 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := job.Release(); err != nil {
		b.Fatal(err)
	}
	return memory
}

// residentOf finds the supervisor of a job by its folder.
func residentOf(b *testing.B, id string) int64 {
	b.Helper()
	printed, err := exec.Command("ps", "-eo", "rss=,args=").Output()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(printed)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == program("weir-jobproxy") && strings.HasSuffix(fields[2], id) {
			var kilobytes int64
			if _, err := fmt.Sscan(fields[0], &kilobytes); err != nil {
				b.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	b.Fatalf("no supervisor of job %s in:\n%s", id, printed)
	return 0
}
