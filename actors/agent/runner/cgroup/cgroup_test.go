package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/actors/agent/runner/proxyproto"
)

// fakeTree makes a root with the given files and returns it.
func fakeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// read returns a file of the fake tree.
func read(t *testing.T, root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// pureV2 is a machine with one hierarchy, the agent in a group of its own.
func pureV2() map[string]string {
	own := "sys/fs/cgroup/system.slice/weir.service/"
	return map[string]string{
		"proc/self/cgroup":                      "0::/system.slice/weir.service\n",
		"proc/self/mountinfo":                   "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
		own + "cgroup.controllers":              "cpuset cpu io memory pids\n",
		own + "cgroup.subtree_control":          "\n",
		own + "memory.max":                      "max\n",
		own + "cpu.max":                         "150000 100000\n",
		"sys/fs/cgroup/system.slice/memory.max": "4294967296\n",
		own + "weir-n1/cgroup.subtree_control":  "",
	}
}

// hybrid is a machine with v1 controllers, cpu sharing its hierarchy, in a
// container that sees a part of the memory hierarchy.
func hybrid() map[string]string {
	return map[string]string{
		"proc/self/cgroup": "5:memory:/box/inner\n3:cpu,cpuacct:/\n2:pids:/jobs\n0::/\n",
		"proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"35 31 0:32 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
			"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/unified/cgroup.controllers":         "\n",
		"sys/fs/cgroup/cpu/cpu.cfs_quota_us":               "-1\n",
		"sys/fs/cgroup/cpu/cpu.cfs_period_us":              "100000\n",
		"sys/fs/cgroup/memory/inner/memory.limit_in_bytes": "9223372036854771712\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":       "1073741824\n",
		"sys/fs/cgroup/pids/jobs/cgroup.procs":             "",
	}
}

// without returns files but for one.
func without(files map[string]string, name string) map[string]string {
	delete(files, name)
	return files
}

// detectCase is the files of a machine, and what is found in them.
type detectCase struct {
	files      map[string]string
	want       proxyproto.Placement
	wantMemory int64
	wantCPU    float64
	wantError  string
}

// checkDetect looks for the groups of each machine.
func checkDetect(t *testing.T, cases map[string]detectCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, test.files)
			got, err := Detect(root, "n1")
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("Detect: error %v, want %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatalf("Detect: %v", err)
			}
			for _, folder := range []*string{&got.Unified, &got.Memory, &got.CPU, &got.Pids} {
				if *folder != "" {
					if _, err := os.Stat(*folder); err != nil {
						t.Errorf("group not made: %v", err)
					}
					*folder = strings.TrimPrefix(*folder, root)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Detect (-want +got):\n%s", diff)
			}
			if memory, err := MemoryLimit(root); err != nil || memory != test.wantMemory {
				t.Errorf("MemoryLimit: %d, %v, want %d", memory, err, test.wantMemory)
			}
			if cpu, err := CPULimit(root); err != nil || cpu != test.wantCPU {
				t.Errorf("CPULimit: %g, %v, want %g", cpu, err, test.wantCPU)
			}
		})
	}
}

// TestMostProcesses has machines whose processes are bounded by the kernel, or by a group.
func TestMostProcesses(t *testing.T) {
	for name, test := range map[string]struct {
		pids, threads, group string
		want                 int64
	}{
		"numbers of processes": {"32768", "192729", "max", 32768},
		"memory":               {"4194304", "192729", "max", 192729},
		"the group":            {"4194304", "192729", "4915", 4915},
	} {
		root := fakeTree(t, map[string]string{
			"proc/self/cgroup":               "0::/service\n",
			"proc/self/mountinfo":            "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"proc/sys/kernel/pid_max":        test.pids + "\n",
			"proc/sys/kernel/threads-max":    test.threads + "\n",
			"sys/fs/cgroup/service/pids.max": test.group + "\n",
		})
		if got, err := MostProcesses(root); err != nil || got != test.want {
			t.Errorf("bounded by %s: %d, %v, want %d", name, got, err, test.want)
		}
	}
	if got, err := MostProcesses(t.TempDir()); err == nil {
		t.Errorf("a machine that tells nothing: %d", got)
	}
}

// TestDetect has machines with control groups of all kinds.
func TestDetect(t *testing.T) {
	checkDetect(t, map[string]detectCase{
		"v2": {
			files:      pureV2(),
			want:       proxyproto.Placement{Unified: "/sys/fs/cgroup/system.slice/weir.service/weir-n1"},
			wantMemory: 4 << 30,
			wantCPU:    1.5,
		},
		"hybrid": {
			files: hybrid(),
			want: proxyproto.Placement{
				Unified: "/sys/fs/cgroup/unified/weir-n1",
				Memory:  "/sys/fs/cgroup/memory/inner/weir-n1",
				CPU:     "/sys/fs/cgroup/cpu/weir-n1",
				Pids:    "/sys/fs/cgroup/pids/jobs/weir-n1",
			},
			wantMemory: 1 << 30,
		},
		"nothing is mounted": {
			files:     map[string]string{"proc/self/cgroup": "", "proc/self/mountinfo": ""},
			wantError: "no v2 hierarchy",
		},
		"v2 without controllers": {
			files: map[string]string{
				"proc/self/cgroup":                 "0::/\n",
				"proc/self/mountinfo":              "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
				"sys/fs/cgroup/cgroup.controllers": "cpu pids\n",
			},
			wantError: "controllers memory: neither",
		},
		"v2 that hands nothing down": {
			files:      without(pureV2(), "sys/fs/cgroup/system.slice/weir.service/cgroup.subtree_control"),
			wantMemory: 4 << 30,
			wantCPU:    1.5,
			wantError:  "cgroup.subtree_control",
		},
		"a line of another shape": {
			files:     map[string]string{"proc/self/cgroup": "nonsense\n", "proc/self/mountinfo": ""},
			wantError: `"nonsense`,
		},
	})
}

// TestDetectInALeaf has an agent that was started in a group for it alone, while the
// jobs of an earlier life run beside it.
func TestDetectInALeaf(t *testing.T) {
	files := pureV2()
	files["proc/self/cgroup"] = strings.Replace(files["proc/self/cgroup"], "weir.service", "weir.service/"+Leaf, 1)
	files["sys/fs/cgroup/system.slice/weir.service/"+Leaf+"/cgroup.controllers"] = ""
	root := fakeTree(t, files)
	place, err := Detect(root, "n1")
	if want := filepath.Join(root, "sys/fs/cgroup/system.slice/weir.service/weir-n1"); err != nil || place.Unified != want {
		t.Errorf("Detect: %+v, %v, want %s", place, err, want)
	}
}

func TestDetectHandsControllersDown(t *testing.T) {
	root := fakeTree(t, pureV2())
	if _, err := Detect(root, "n1"); err != nil {
		t.Fatal(err)
	}
	own := "sys/fs/cgroup/system.slice/weir.service/"
	for _, name := range []string{own + "cgroup.subtree_control", own + "weir-n1/cgroup.subtree_control"} {
		if got := read(t, root, name); got != "+memory +cpu +pids" {
			t.Errorf("%s is %q, want the controllers", name, got)
		}
	}
}

// pressure is what a kernel with pressure information says.
const pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=40\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"

// jobV2 and jobHybrid are the files of a job's group.
func jobV2() map[string]string {
	return map[string]string{
		"u/memory.max": "", "u/memory.swap.max": "", "u/memory.oom.group": "", "u/cpu.max": "", "u/cpu.weight": "", "u/pids.max": "",
		"u/cpu.stat":     "usage_usec 300\nuser_usec 100\nsystem_usec 200\nnr_throttled 1\nthrottled_usec 30\n",
		"u/cpu.pressure": pressure,
		"u/pids.events":  "max 4\n", "u/pids.peak": "9\n",
		"u/memory.current": "10000\n", "u/memory.peak": "20000\n",
		"u/memory.stat":   "anon 5000\nfile 4000\nshmem 1000\n",
		"u/memory.events": "low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n",
		"u/cgroup.kill":   "", "u/cgroup.events": "populated 0\nfrozen 0\n",
		"u/cgroup.procs": "12\n345\n",
	}
}

func jobHybrid() map[string]string {
	return map[string]string{
		"u/cpu.stat": "usage_usec 300\nuser_usec 100\nsystem_usec 200\n", "u/cgroup.kill": "", "u/cgroup.events": "populated 0\n", "u/cgroup.procs": "12\n345\n",
		"u/cpu.pressure": pressure,
		"c/cpu.stat":     "nr_periods 0\nnr_throttled 1\nthrottled_time 30000\n",
		"p/pids.events":  "max 4\n", "p/pids.peak": "9\n",
		"m/memory.limit_in_bytes": "536870912", "m/memory.memsw.limit_in_bytes": "", "m/memory.usage_in_bytes": "10000\n",
		"m/memory.max_usage_in_bytes": "20000\n", "m/memory.stat": "cache 1\ntotal_cache 4000\ntotal_shmem 1000\n",
		"m/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"c/cpu.cfs_quota_us":   "", "c/cpu.shares": "", "p/pids.max": "",
	}
}

func TestGroup(t *testing.T) {
	limits := Limits{CPU: 1.5, CPUWeight: 200, Memory: 512 << 20, Pids: 10}
	tests := map[string]struct {
		files      map[string]string
		place      func(root string) proxyproto.Placement
		want       map[string]string
		wantEvents MemoryEvents
	}{
		"v2": {
			files: jobV2(),
			place: func(root string) proxyproto.Placement { return proxyproto.Placement{Unified: root + "/u"} },
			want: map[string]string{"u/memory.max": "536870912", "u/memory.swap.max": "0", "u/memory.oom.group": "1",
				"u/cpu.max": "150000 100000", "u/cpu.weight": "200", "u/pids.max": "10"},
			wantEvents: MemoryEvents{LimitHit: true, Killed: true},
		},
		"hybrid": {
			files: jobHybrid(),
			place: hybridPlace,
			want: map[string]string{"m/memory.limit_in_bytes": "536870912", "m/memory.memsw.limit_in_bytes": "536870912",
				"c/cpu.cfs_quota_us": "150000", "c/cpu.shares": "2048", "p/pids.max": "11"},
			// The group's peak is far from its limit: another's shortage killed.
			wantEvents: MemoryEvents{Killed: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fakeTree(t, test.files)
			group := Open(test.place(root))
			if err := group.Create(limits); err != nil {
				t.Fatalf("Create: %v", err)
			}
			for file, want := range test.want {
				if got := read(t, root, file); got != want {
					t.Errorf("%s is %q, want %q", file, got, want)
				}
			}
			usage, err := group.Usage()
			want := Usage{Memory: 7000, Cache: 3000, Peak: 20000, CPUUser: 100 * time.Microsecond, CPUSystem: 200 * time.Microsecond,
				CPUThrottled: 30 * time.Microsecond, CPUWait: 40 * time.Microsecond, PeakPids: 9}
			if err != nil || usage != want {
				t.Errorf("Usage: %+v, %v, want %+v", usage, err, want)
			}
			if events, err := group.MemoryEvents(); err != nil || events != test.wantEvents {
				t.Errorf("MemoryEvents: %+v, %v, want %+v", events, err, test.wantEvents)
			}
			if refused, err := group.RefusedForks(); err != nil || refused != 4 {
				t.Errorf("RefusedForks: %d, %v, want 4", refused, err)
			}
			if pids, err := group.Processes(); err != nil || !cmp.Equal(pids, []int{12, 345}) {
				t.Errorf("Processes: %v, %v, want 12 and 345", pids, err)
			}
			if err := group.Kill(time.Second); err != nil {
				t.Errorf("Kill: %v", err)
			}
			if got := read(t, root, "u/cgroup.kill"); got != "" {
				t.Errorf("cgroup.kill is %q of a group without processes", got)
			}
		})
	}
}

// TestOldKernels do not tell all.
func TestOldKernels(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		place func(root string) proxyproto.Placement
	}{
		"v2":     {jobV2(), func(root string) proxyproto.Placement { return proxyproto.Placement{Unified: root + "/u"} }},
		"hybrid": {jobHybrid(), hybridPlace},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"u/cpu.pressure", "u/memory.peak", "u/pids.peak", "p/pids.peak"} {
				delete(test.files, file)
			}
			usage, err := Open(test.place(fakeTree(t, test.files))).Usage()
			if err != nil || usage.CPUWait != 0 || usage.PeakPids != 0 || usage.Memory != 7000 || usage.CPUThrottled == 0 {
				t.Errorf("Usage: %+v, %v, want what is told", usage, err)
			}
		})
	}
}

func hybridPlace(root string) proxyproto.Placement {
	return proxyproto.Placement{Unified: root + "/u", Memory: root + "/m", CPU: root + "/c", Pids: root + "/p"}
}

// TestKillsInInnerGroups that the job has made.
func TestKillsInInnerGroups(t *testing.T) {
	files := jobHybrid()
	files["m/memory.oom_control"] = "oom_kill 0\n"
	files["m/memory.max_usage_in_bytes"] = "536870912\n"
	files["m/inner/memory.oom_control"] = "oom_kill 0\n"
	files["m/inner/most/memory.oom_control"] = "oom_kill 1\n"
	group := Open(hybridPlace(fakeTree(t, files)))
	if events, err := group.MemoryEvents(); err != nil || !events.Killed || !events.LimitHit {
		t.Errorf("MemoryEvents: %+v, %v, want a kill at the limit", events, err)
	}
}

func TestKillSaysWhenProcessesAreLeft(t *testing.T) {
	files := jobV2()
	files["u/cgroup.events"] = "populated 1\n"
	root := fakeTree(t, files)
	group := Open(proxyproto.Placement{Unified: root + "/u"})
	if err := group.Kill(time.Millisecond); err == nil || !strings.Contains(err.Error(), "processes still running") {
		t.Errorf("Kill: %v, want an error that says who is left", err)
	}
	if got := read(t, root, "u/cgroup.kill"); got != "1" {
		t.Errorf("cgroup.kill is %q, want 1", got)
	}
}

func TestWatchMemoryV2(t *testing.T) {
	root := fakeTree(t, jobV2())
	told := make(chan struct{}, 10)
	stop, err := Open(proxyproto.Placement{Unified: root + "/u"}).WatchMemory(func() { told <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := os.WriteFile(root+"/u/memory.events", []byte("oom_kill 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("WatchMemory did not notice the change")
	}
}
