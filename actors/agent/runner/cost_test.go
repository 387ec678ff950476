package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// proxyOf finds the proxy of a job.
func (f *fixture) proxyOf(t testing.TB, job *runner.Job) proctree.Process {
	t.Helper()
	tree, err := proctree.Tree(os.Getpid(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range tree {
		command := proctree.Arguments(process)
		if len(command) == 2 && command[0] == proxyPath && strings.HasSuffix(command[1], "/jobs/"+job.ID()) {
			return process
		}
	}
	t.Fatalf("job %s has no proxy", job.ID())
	return proctree.Process{}
}

const (
	// residentBudget is what a proxy may hold in memory, in bytes.
	residentBudget = 10 << 20
	// startBudget is what a proxy may add to the start of a job.
	startBudget = 5 * time.Millisecond
)

// resident returns what the proxy of a job holds in memory, in bytes, and the most that
// it has held.
func (f *fixture) resident(t testing.TB, job *runner.Job) (now, most int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.proxyOf(t, job).Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if fields[0] != "VmRSS:" && fields[0] != "VmHWM:" {
			continue
		}
		kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if fields[0] == "VmRSS:" {
			now = kilobytes << 10
		} else {
			most = kilobytes << 10
		}
	}
	return now, most
}

func TestProxyStaysSmall(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	job := f.start(t, runner.JobSpec{Shell: "head -c 300M /dev/zero; head -c 300M /dev/zero >&2; echo; echo ready; sleep 1000"})
	eventually(t, "the job has printed", func() bool {
		part, err := f.ReadOutput(job.ID(), "stdout", -6, 100)
		return err == nil && string(part.Data) == "ready\n"
	})
	for range 20 {
		f.RenewAll(clock.Boot() + 10*patience)
	}
	now, most := f.resident(t, job)
	t.Logf("weir-jobproxy: resident %d KiB, %d KiB at most", now>>10, most>>10)
	if most > residentBudget {
		t.Errorf("resident %d KiB, the budget is %d KiB", most>>10, residentBudget>>10)
	}
}

// BenchmarkJobProxyResident tells what the proxy of a job that says little holds in
// memory.
func BenchmarkJobProxyResident(b *testing.B) {
	f := newFixture(b, backends["with cgroups"])
	var biggest int64
	n := 0
	for b.Loop() {
		n++
		job := f.start(b, runner.JobSpec{ID: "job-" + strconv.Itoa(n), Shell: "echo ready; sleep 1000"})
		f.awaitOutput(b, job, 1)
		for range 20 {
			f.RenewAll(clock.Boot() + 10*patience)
		}
		_, most := f.resident(b, job)
		biggest = max(biggest, most)
		if err := job.Stop("measured", 0); err != nil {
			b.Fatal(err)
		}
		finished(b, job)
		if err := job.Release(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(biggest>>10), "KiB-resident")
	b.ReportMetric(float64(residentBudget>>10), "KiB-goal")
}

// BenchmarkStartAdded tells by how much later the command of a job begins than if it
// were started by hand.
func BenchmarkStartAdded(b *testing.B) {
	for name, detect := range backends {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, detect)
			var plain, begun time.Duration
			n := 0
			for b.Loop() {
				n++
				before := time.Now()
				command := exec.Command("/bin/true")
				if err := command.Start(); err != nil {
					b.Fatal(err)
				}
				plain += time.Since(before)
				if err := command.Wait(); err != nil {
					b.Fatal(err)
				}
				before = time.Now()
				job := f.start(b, runner.JobSpec{ID: "job-" + strconv.Itoa(n), Argv: []string{"/bin/true"}})
				if _, is := (<-job.Events()).(runner.Started); !is {
					b.Fatal("the job did not begin")
				}
				begun += time.Since(before)
				finished(b, job)
				if err := job.Release(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((begun-plain).Microseconds())/1000/float64(n), "ms-added")
			b.ReportMetric(float64(startBudget.Microseconds())/1000, "ms-goal")
		})
	}
}

// BenchmarkStart compares a job from Start to Release with plain fork and exec
// of the same program.
func BenchmarkStart(b *testing.B) {
	for name, detect := range backends {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, detect)
			const plainRuns = 50
			begin := time.Now()
			for range plainRuns {
				if err := exec.Command("/bin/true").Run(); err != nil {
					b.Fatal(err)
				}
			}
			plain := time.Since(begin) / plainRuns
			n := 0
			for b.Loop() {
				n++
				job := f.start(b, runner.JobSpec{ID: "job-" + strconv.Itoa(n), Argv: []string{"/bin/true"}})
				finished(b, job)
				if err := job.Release(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/float64(plain.Nanoseconds()), "x-fork-exec")
		})
	}
}

// BenchmarkJobProxyStart tells how long a job takes from the order to start it until its
// command runs, and until its end is told, however far it is kept apart from its node.
func BenchmarkJobProxyStart(b *testing.B) {
	for _, isolation := range proxyproto.Isolations {
		b.Run(isolation, func(b *testing.B) {
			if isolation == proxyproto.IsolationStrict && os.Geteuid() != 0 {
				b.Skip("who is not root cannot keep jobs apart")
			}
			f := newFixture(b, backends["with cgroups"], everyWay(b))
			var begun, ended time.Duration
			n, used := 0, cpuUsed(b)
			for b.Loop() {
				n++
				before := time.Now()
				job := f.start(b, runner.JobSpec{ID: "job-" + strconv.Itoa(n), Argv: []string{"/bin/true"}, Isolation: isolation})
				if _, is := (<-job.Events()).(runner.Started); !is {
					b.Fatal("the job did not begin")
				}
				begun += time.Since(before)
				finished(b, job)
				ended += time.Since(before)
				if err := job.Release(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(begun.Microseconds())/1000/float64(n), "ms-to-command")
			b.ReportMetric(float64(ended.Microseconds())/1000/float64(n), "ms-to-result")
			b.ReportMetric(float64((cpuUsed(b)-used).Microseconds())/1000/float64(n), "ms-of-cpu")
		})
	}
}

// cpuUsed is the time of this process, of its children, and of all that they have waited for, which does not
// depend on what else the machine does.
func cpuUsed(b *testing.B) time.Duration {
	b.Helper()
	var sum time.Duration
	all, err := proctree.All()
	if err != nil {
		b.Fatal(err)
	}
	for _, process := range all {
		if process.Parent == os.Getpid() {
			sum += process.CPUUser + process.CPUSystem
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return sum
}
