package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/statistics"
)

const mib = 1 << 20

// checkNoMounts looks for mounts that others see.
func (f *fixture) checkNoMounts(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), f.config.Root) {
		t.Errorf("mounts below %s, %v, want none:\n%s", f.config.Root, err, mounts)
	}
}

// TestFullTmpfs (M9) is the job's own affair: what it writes is refused, and it may go on.
func TestFullTmpfs(t *testing.T) {
	needsRoot(t)
	for _, isolation := range proxyproto.Isolations {
		t.Run(isolation, func(t *testing.T) {
			onEachBackendWith(t, everyWay(t), func(t *testing.T, f *fixture) {
				job := f.start(t, runner.JobSpec{
					Isolation: isolation, MemoryLimit: 64 * mib,
					Tmpfs: []proxyproto.Tmpfs{{Path: "deep/ram", Size: 8 * mib}, {Path: "other", Size: mib}},
					Shell: "head -c 20M /dev/zero > deep/ram/x; echo $?; echo small > other/y && cat other/y; stat -c %s deep/ram/x; echo $$; sleep 0.3; exit 5",
				})
				lines := f.awaitOutput(t, job, 4)
				f.checkNoMounts(t)
				result := finished(t, job)
				if want := []string{"1", "small", strconv.Itoa(8 * mib)}; result.ExitCode != 5 || strings.Join(lines[:3], " ") != strings.Join(want, " ") {
					t.Errorf("output %q, result %+v, want %q and code 5", lines, result, want)
				}
				if text := f.output(t, job.ID(), "stderr"); !strings.Contains(text, "No space left") {
					t.Errorf("stderr %q, want what the system says of a full disk", text)
				}
				values := result.Statistics.Values
				if got := values[statistics.UserMaxTmpfsSize]; got < 8*mib || got > 9*mib {
					t.Errorf("%s is %d, want about 8 MiB", statistics.UserMaxTmpfsSize, got)
				}
				if got := values[statistics.UserTmpfsLimit]; got != 9*mib {
					t.Errorf("%s is %d, want 9 MiB", statistics.UserTmpfsLimit, got)
				}
				if most := result.Statistics.MaxMemory; most < 8*mib {
					t.Errorf("max memory %d, want tmpfs in it", most)
				}
				if net := values[statistics.UserMaxMemory]; net > 8*mib {
					t.Errorf("%s is %d, want it without tmpfs", statistics.UserMaxMemory, net)
				}
				f.checkNoMounts(t)
			})
		})
	}
}

// TestTmpfsCountsAsMemory (M9) has a job that is within its limit but for what is in its tmpfs.
func TestTmpfsCountsAsMemory(t *testing.T) {
	needsRoot(t)
	onEachBackend(t, func(t *testing.T, f *fixture) {
		spec := acting("hog", "60")
		spec.MemoryLimit = 80 * mib
		spec.Tmpfs = []proxyproto.Tmpfs{{Path: "ram", Size: 50 * mib}}
		spec.Argv = append([]string{"/bin/sh", "-c", `head -c 40M /dev/zero > ram/x && exec "$@"`, "sh"}, spec.Argv...)
		result := f.run(t, spec)
		excess := result.Memory
		if result.Outcome != proxyproto.OutcomeMemoryLimitExceeded || excess == nil {
			t.Fatalf("result %+v, want the memory limit exceeded", result)
		}
		if excess.Tmpfs < 40*mib || excess.Tmpfs > 41*mib || excess.Usage < 80*mib || !strings.Contains(result.Error, "in tmpfs") {
			t.Errorf("excess %+v, error %q, want 40 MiB of it in tmpfs", excess, result.Error)
		}
	})
}

// TestMountsGoWithEverything (M9) kills the proxy, and so the job, without a chance to tidy up.
func TestMountsGoWithEverything(t *testing.T) {
	needsRoot(t)
	for _, isolation := range proxyproto.Isolations {
		t.Run(isolation, func(t *testing.T) {
			onEachBackendWith(t, everyWay(t), func(t *testing.T, f *fixture) {
				job := f.start(t, runner.JobSpec{
					Isolation: isolation, Tmpfs: []proxyproto.Tmpfs{{Path: "ram", Size: 8 * mib}},
					Shell: "head -c 4M /dev/zero > ram/x; setsid sleep 1000 & echo ready; sleep 1000",
				})
				f.awaitOutput(t, job, 1)
				// Whoever is in a namespace holds its mounts.
				inside := map[string]bool{}
				proxy := f.proxyIdentity(t)
				tree, err := proctree.Tree(proxy.Pid, "")
				if err != nil || len(tree) < 2 {
					t.Fatalf("processes %v, %v, want the job's", tree, err)
				}
				for _, process := range append(tree, proctree.Process{Identity: proxy}) {
					inside[mountsOf(process.Pid)] = true
				}
				killProxy(t, f, 0)
				if result := finished(t, job); result.Outcome != proxyproto.OutcomeProxyFailed {
					t.Errorf("result %+v, want the proxy failed", result)
				}
				// A process that ends loses its mark before it is gone.
				eventually(t, "no process holds the job's mounts", func() bool {
					all, err := proctree.All()
					if err != nil {
						t.Fatal(err)
					}
					return !slices.ContainsFunc(all, func(process proctree.Process) bool {
						name := mountsOf(process.Pid)
						return !process.Gone && name != "" && inside[name]
					})
				})
				f.checkNoMounts(t)
				if err := job.Release(); err != nil {
					t.Errorf("Release: %v", err)
				}
			})
		})
	}
}

// mountsOf names the mount namespace of a process; empty: it has gone.
func mountsOf(pid int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return ""
	}
	return name
}

func TestForkBomb(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		// Bounded, should nothing hold it.
		job := f.start(t, runner.JobSpec{PidsLimit: 30, Shell: "i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; wait"})
		most := 0
		eventually(t, "the job ends", func() bool {
			tree, err := proctree.Tree(f.proxyOf(t, job).Pid, "")
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, len(tree))
			return job.Result() != nil
		})
		result := finished(t, job)
		wantOutcome := proxyproto.OutcomeExited
		if f.config.Cgroups.Node.None() {
			wantOutcome = proxyproto.OutcomePidsLimitExceeded
		} else if most > 30 {
			t.Errorf("%d processes at a time, the limit is 30", most)
		}
		if result.Outcome != wantOutcome || result.ExitCode == 0 || !strings.HasPrefix(result.Error, "Process limit exceeded") || !strings.Contains(result.Error, "30") {
			t.Errorf("result %+v, want %s with an error that tells of the process limit", result, wantOutcome)
		}
		if peak := result.Statistics.Values[statistics.UserPeakProcesses]; peak < 2 {
			t.Errorf("%s is %d, want more", statistics.UserPeakProcesses, peak)
		}
	})
}

func TestDiskLimit(t *testing.T) {
	tests := map[string]string{
		"while it runs":          "mkdir data; head -c 30M /dev/zero > data/big; head -c 2M /dev/zero > small; sleep 1000",
		"seen when it has ended": "mkdir data; head -c 30M /dev/zero > data/big; head -c 2M /dev/zero > small",
	}
	for name, shell := range tests {
		t.Run(name, func(t *testing.T) {
			onEachBackend(t, func(t *testing.T, f *fixture) {
				result := f.run(t, runner.JobSpec{DiskLimit: 10 * mib, Shell: shell})
				excess := result.Disk
				if result.Outcome != proxyproto.OutcomeDiskLimitExceeded || excess == nil {
					t.Fatalf("result %+v, want the disk limit exceeded", result)
				}
				if excess.Limit != 10*mib || excess.Usage <= 10*mib || len(excess.Biggest) == 0 || excess.Biggest[0].Path != "data/big" {
					t.Errorf("excess %+v, want data/big to be the biggest of more than 10 MiB", excess)
				}
				if !strings.Contains(result.Error, `"data/big"`) {
					t.Errorf("error %q, want it to name the file", result.Error)
				}
				if used := result.Statistics.Values[statistics.UserDiskMaxUsage]; used < excess.Usage {
					t.Errorf("%s is %d, want at least %d", statistics.UserDiskMaxUsage, used, excess.Usage)
				}
			})
		})
	}
}

// TestDiskLimitOfDeletedFiles has a job write to files that it has deleted, which take space
// until it closes them.
func TestDiskLimitOfDeletedFiles(t *testing.T) {
	tests := map[string]struct{ isolation, shell string }{
		"in the workspace":              {shell: "exec 3> data; rm data; head -c 30M /dev/zero >&3; sleep 1000"},
		"by another process":            {shell: "exec 3> data; (rm data; setsid sh -c 'head -c 30M /dev/zero >&3; sleep 1000' &) ; exec 3>&-; sleep 1000"},
		"a strictly isolated one's tmp": {isolation: proxyproto.IsolationStrict, shell: "exec 3> /tmp/data; rm /tmp/data; head -c 30M /dev/zero >&3; sleep 1000"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.isolation != "" {
				needsRoot(t)
			}
			onEachBackendWith(t, everyWay(t), func(t *testing.T, f *fixture) {
				result := f.run(t, runner.JobSpec{DiskLimit: 10 * mib, Isolation: test.isolation, Shell: test.shell})
				excess := result.Disk
				if result.Outcome != proxyproto.OutcomeDiskLimitExceeded || excess == nil {
					t.Fatalf("result %+v, want the disk limit exceeded", result)
				}
				if excess.Usage <= 10*mib || excess.Usage > 31*mib || len(excess.Biggest) == 0 || !strings.HasSuffix(excess.Biggest[0].Path, "data (deleted)") {
					t.Errorf("excess %+v, want data to be the biggest, once, and deleted", excess)
				}
			})
		})
	}
}

// TestDiskUse of a job within its limit counts its own files once, and nothing else.
func TestDiskUse(t *testing.T) {
	f := newFixture(t, backends["as a process tree"])
	result := f.run(t, runner.JobSpec{DiskLimit: 100 * mib, Shell: "head -c 4M /dev/zero > a; ln a b; ln -s / c; ln -s a d; mkdir -p e/f; head -c 2M /dev/zero > e/f/g; truncate -s 1G sparse"})
	used := result.Statistics.Values[statistics.UserDiskMaxUsage]
	if result.Outcome != proxyproto.OutcomeExited || used < 6*mib || used > 6*mib+mib/4 {
		t.Errorf("result %+v, used %d, want 6 MiB", result, used)
	}
}

// TestScores of the processes of a job grow as it exceeds its reserve.
func TestScores(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		spec := acting("hog", "100")
		spec.MemoryReserve = 10 * mib
		spec.Argv = append([]string{"/bin/sh", "-c", `read x < go; exec "$@"`, "sh"}, spec.Argv...)
		spec.Furnish = func(workspace string) error { return unix.Mkfifo(filepath.Join(workspace, "go"), 0o600) }
		job := f.start(t, spec)
		var pid int
		for event := range job.Events() {
			if started, is := event.(runner.Started); is {
				pid = started.Pid
				break
			}
		}
		score := func() int {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		eventually(t, "a score within the reserve", func() bool { return score() == 100 })
		if err := os.WriteFile(filepath.Join(f.config.Root, "jobs", "job", "work", "go"), []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a score above the reserve", func() bool { return score() >= 500 })
	})
}

// TestWeightOfCPU has no quota.
func TestWeightOfCPU(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	if !f.config.Cgroups.Node.Hybrid() {
		t.Skip("this machine's cgroups are v2; the fake tree tests them")
	}
	job := f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000", CPULimit: 2.5, CPUEnforcement: proxyproto.EnforceWeight})
	f.awaitOutput(t, job, 1)
	for name, want := range map[string]string{"cpu.cfs_quota_us": "-1", "cpu.shares": "2560"} {
		got, err := os.ReadFile(filepath.Join(f.config.Cgroups.Node.CPU, "job", name))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q, %v, want %s", name, got, err, want)
		}
	}
}

// TestMeasuredTimes tells waiting from being throttled.
func TestMeasuredTimes(t *testing.T) {
	f := newFixture(t, backends["with cgroups"])
	result := f.run(t, runner.JobSpec{CPULimit: 0.02, Shell: "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"})
	values := result.Statistics.Values
	// The kernel guesses by samples how much was the system's: it may be all.
	if values[statistics.UserCPUThrottled] <= 0 || values[statistics.UserCPUUser]+values[statistics.UserCPUSystem] <= 0 || values[statistics.UserContextSwitches] <= 0 {
		t.Errorf("values %v, want it throttled", values)
	}
	if values[statistics.ProxyMaxMemory] <= 0 || values[statistics.ProxyCPUUser]+values[statistics.ProxyCPUSystem] <= 0 {
		t.Errorf("values %v, want the proxy's", values)
	}
	for name := range values {
		if _, known := statistics.Describe(name); !known {
			t.Errorf("nobody knows what %s is", name)
		}
	}
	if took := result.Duration(); took < time.Millisecond {
		t.Errorf("took %v", took)
	}
}

// TestLongNames of programs that are not there are told as well as short ones.
func TestLongNames(t *testing.T) {
	f := newFixture(t, backends["as a process tree"], everyWay(t))
	for _, isolation := range proxyproto.Isolations {
		if isolation == proxyproto.IsolationStrict && os.Geteuid() != 0 {
			continue
		}
		result := f.run(t, runner.JobSpec{ID: isolation, Isolation: isolation, Argv: []string{"/" + strings.Repeat("\x02", 100_000)}})
		if result.Outcome != proxyproto.OutcomeStartFailed || !strings.HasPrefix(result.Error, `start "/`) || len(result.Error) > 5000 {
			t.Errorf("%s: result %.300v, want the start failed", isolation, result)
		}
	}
}
