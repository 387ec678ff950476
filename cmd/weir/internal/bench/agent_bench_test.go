package bench

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/cmd/weir/internal/devcluster"
)

var agentJobs = flag.Int("agent-jobs", 1000, "BenchmarkAgent: jobs of one agent")

const (
	// agentSpan is how long an agent whose jobs sleep is watched.
	agentSpan = 30 * time.Second
	// agentPause is how long it is left alone before.
	agentPause = 10 * time.Second
	// sleeperMemory is the memory limit of a job that sleeps.
	sleeperMemory = 16 << 20
)

// crowded is an agent with many jobs that sleep.
type crowded struct {
	c           *cluster
	jobs        int
	agent       devcluster.Member
	operation   string
	supervisors []int
}

// BenchmarkAgent is what many jobs that sleep cost one agent: to start them, the processor time and memory of the
// agent and of the jobs' supervisors, and the time from kill -9 of the agent until the next one has adopted all and is
// registered. It takes more than a minute, and runs only if its flag is given. What bounds it: each process that the
// kernel wakes takes 20 to 40 µs of a processor, so that 1,000 supervisors may wake only about once a second.
func BenchmarkAgent(b *testing.B) {
	const goal, goalRestart = 5.0, 2 * time.Second
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "agent-jobs" })
	if !asked {
		b.Skip("it takes more than a minute: -agent-jobs 1000")
	}
	jobs := *agentJobs
	for b.Loop() {
		a := &crowded{jobs: jobs, c: startClusterWith(b, "default", 1, 1, devcluster.Share{CPU: max(1, jobs/100), Memory: int64(jobs) * 2 * sleeperMemory, Slots: jobs})}
		a.look(b)
		empty := resident(b, a.agent.Process.Pid)
		began := time.Now()
		a.fill(b)
		filled := time.Since(began)
		agent, supervisors := a.idle(b)
		memory, each := resident(b, a.agent.Process.Pid), a.proportional(b)
		restarted := a.restart(b)
		adopter, adopted := a.idle(b)

		b.ReportMetric(agent+supervisors, "idle-%-of-a-core")
		b.ReportMetric(goal, "goal-%")
		b.ReportMetric(restarted.Seconds(), "restart-s")
		b.ReportMetric(goalRestart.Seconds(), "goal-s")
		tell("A1: %d jobs that sleep, on one agent: all run after %.1f s", jobs, filled.Seconds())
		tell("A1: idle, the agent takes %.1f%% of a core and all supervisors %.1f%%, after a restart %.1f%% and %.1f%%; goal %.0f%% in all",
			agent, supervisors, adopter, adopted, goal)
		tell("A1: the agent has %.0f MiB, %.0f KiB a job; a supervisor has %.1f MiB (PSS)",
			mebibytes(memory), mebibytes((memory-empty)/int64(jobs))*1024, mebibytes(each))
		tell("A1: agent killed: all adopted and registered after %.2f s; goal %.0f s", restarted.Seconds(), goalRestart.Seconds())
		if err := a.c.AbortOperation(b.Context(), a.operation, "measured", 0); err != nil {
			b.Fatal(err)
		}
	}
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// look finds the agent's process.
func (a *crowded) look(b *testing.B) {
	b.Helper()
	record, err := devcluster.Load(a.c.Dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range record.Members {
		if m.Kind == devcluster.Agent {
			a.agent = m
		}
	}
}

// fill starts the jobs, and waits until all run.
func (a *crowded) fill(b *testing.B) {
	b.Helper()
	a.operation = a.c.start(b, map[string]any{"tasks": map[string]any{"sleep": map[string]any{
		"job_count": a.jobs, "command": []any{"/bin/sleep", "3600"}, "cpu_limit": 0.01, "memory_limit": sleeperMemory,
	}}})
	a.until(b, "all jobs run", func() bool {
		a.supervisors = a.supervisors[:0]
		running := map[int]bool{}
		all, err := proctree.All()
		if err != nil {
			b.Fatal(err)
		}
		for _, process := range all {
			if process.Name == "sleep" {
				running[process.Parent] = true
			}
		}
		for _, process := range children(b, a.agent.Process.Pid) {
			if running[process.Pid] {
				a.supervisors = append(a.supervisors, process.Pid)
			}
		}
		return len(a.supervisors) == a.jobs
	})
}

// until waits for something.
func (a *crowded) until(b *testing.B, what string, holds func() bool) {
	b.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > patience {
			b.Fatalf("not so: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// idle returns how much of a core the agent takes, and its supervisors together, in percent.
func (a *crowded) idle(b *testing.B) (agent, supervisors float64) {
	b.Helper()
	time.Sleep(agentPause)
	began, before, all := time.Now(), processorTime(b, a.agent.Process.Pid), a.supervising(b)
	time.Sleep(agentSpan)
	took := time.Since(began)
	return percent(processorTime(b, a.agent.Process.Pid)-before, took), percent(a.supervising(b)-all, took)
}

// supervising returns the processor time of all supervisors so far.
func (a *crowded) supervising(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, pid := range a.supervisors {
		sum += processorTime(b, pid)
	}
	return sum
}

// restart kills the agent, and returns how long it takes until the next one has adopted all jobs and is registered.
func (a *crowded) restart(b *testing.B) time.Duration {
	b.Helper()
	began := time.Now()
	a.c.kill(b, a.agent.Name)
	if _, err := devcluster.StartMember(b.Context(), a.c.Dir, a.agent.Name, patience); err != nil {
		b.Fatal(err)
	}
	a.look(b)
	want := fmt.Sprintf(" jobs=%d", a.jobs)
	a.until(b, "registered with"+want, func() bool {
		registered := false
		if err := devcluster.EachLine(a.agent.Log, a.agent.LogStart, func(line string) {
			registered = registered || strings.Contains(line, "msg=registered") && strings.HasSuffix(line, want)
		}); err != nil {
			b.Fatal(err)
		}
		return registered
	})
	took := time.Since(began)
	for _, pid := range a.supervisors {
		if _, err := os.Stat(fmt.Sprint("/proc/", pid)); err != nil {
			b.Fatalf("a supervisor has gone: %v", err)
		}
	}
	return took
}

// proportional returns the memory of a supervisor, on average: its share of what it shares with others included.
func (a *crowded) proportional(b *testing.B) int64 {
	b.Helper()
	var sum int64
	for _, pid := range a.supervisors {
		memory, _, err := proctree.Memory(pid)
		if err != nil {
			b.Fatal(err)
		}
		sum += memory
	}
	return sum / int64(len(a.supervisors))
}

// resident returns the memory of a process.
func resident(b *testing.B, pid int) int64 {
	b.Helper()
	memory, err := proctree.Resident(pid)
	if err != nil {
		b.Fatal(err)
	}
	return memory
}
