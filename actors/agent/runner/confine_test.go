package runner_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// needsRoot skips a test of what only root can do.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("who is not root cannot keep jobs apart")
	}
}

// inFolder puts the runner's folder elsewhere than below /tmp, which strictly isolated jobs
// have their own of.
func inFolder(t testing.TB, parent string) func(*runner.Config) {
	t.Helper()
	folder, err := os.MkdirTemp(parent, "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return func(c *runner.Config) { c.Root = filepath.Join(folder, "agent") }
}

// as has other users for jobs than root.
func as(users runner.Users) func(*runner.Config) {
	return func(c *runner.Config) { c.Users = users }
}

// own gives each job a user of its own.
var own = as(runner.Users{Own: runner.DefaultUIDs})

// everyWay permits every isolation and user that is possible. Jobs have a user of their own unless
// they name one.
func everyWay(t testing.TB) func(*runner.Config) {
	if os.Geteuid() != 0 {
		return as(runner.Users{})
	}
	return func(c *runner.Config) {
		inFolder(t, disktest.Reachable(t))(c)
		c.Users = runner.Users{Own: runner.DefaultUIDs, Root: true}
	}
}

// probes are what a strictly isolated job tries. Each is to fail; a shell runs it.
var probes = map[string]string{
	"read the agent's state":       "cat $ROOT/lock $ROOT/key",
	"list the agent's state":       "ls $ROOT/jobs/other",
	"read another job's files":     "cat $ROOT/jobs/other/work/secret",
	"see the proxy's socket":       "ls $ROOT/jobs/job/control.sock",
	"read its own spec":            "cat $ROOT/jobs/job/spec.json",
	"read another's output":        "ls $ROOT/output/other",
	"signal the agent":             "kill -0 $AGENT",
	"see the agent":                "ls -d /proc/$AGENT",
	"end its proxy":                "kill -9 1",
	"enter its proxy's root":       "ls /proc/1/root/",
	"read its proxy's memory":      "head -c 1 /proc/1/mem",
	"read its proxy's environment": "cat /proc/1/environ",
	"list processes of the node":   "test $(ls /proc | grep -c '^[0-9]') -gt 20",
	"write a cgroup":               "echo 1 > $CGROUP/cgroup.procs",
	"make a cgroup":                "mkdir $CGROUP/inner",
	"make a v1 cgroup":             "mkdir /sys/fs/cgroup/memory/weir-probe",
	"mount":                        "mount -t tmpfs probe /mnt",
	"mount a tmpfs in its own":     "mkdir here; mount -t tmpfs probe here",
	"make a folder writable":       "mount -o remount,rw /",
	"unmount":                      "umount /tmp",
	"write to the root":            "touch /probe",
	"write to /etc":                "touch /etc/probe",
	"write to /usr":                "touch /usr/probe",
	"write to /dev":                "touch /dev/probe",
	"read the shadow file":         "cat /etc/shadow",
	"read the kernel's memory":     "head -c 1 /dev/mem",
	"read a disk":                  "head -c 1 /dev/vda || head -c 1 /dev/sda",
	"make a device":                "mknod disk b 254 0",
	"become root in a namespace":   "unshare -U -r true",
	"have mounts in a namespace":   "unshare -U -m true",
	"enter the agent's namespace":  "nsenter -t 1 -m true",
	"change its root":              "chroot / true",
	"set the clock":                "date -s '2001-01-01'",
	"change the kernel's settings": "echo 1 > /proc/sys/kernel/panic",
	"have sysrq":                   "echo h > /proc/sysrq-trigger",
	"open a raw socket":            "perl -MSocket -e 'socket(my $s, PF_INET, SOCK_RAW, 1) or exit 1'",
	"become root":                  "su -c true || sudo -n true",
	"keep shared memory":           "ls /dev/shm/weir-probe",
	"read the node's /tmp":         "ls /tmp/weir-probe-*",
}

// TestStrictJobsCannotEscape (T2) runs all probes in one job, beside another.
func TestStrictJobsCannotEscape(t *testing.T) {
	needsRoot(t)
	shared, err := os.CreateTemp("/dev/shm", "weir-probe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(shared.Name()) })
	visible, err := os.MkdirTemp("/tmp", "weir-probe-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(visible) })
	probes := maps.Clone(probes)
	probes["keep shared memory"] = "ls " + shared.Name()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for place, parent := range map[string]string{"below /tmp": os.TempDir(), "in a folder that is closed": home, "in a folder that is open": "/var"} {
		for name, detect := range backends {
			t.Run(name+", "+place, func(t *testing.T) {
				f := newFixture(t, detect, inFolder(t, parent), own)
				if err := os.WriteFile(filepath.Join(f.config.Root, "key"), []byte("secret"), 0o600); err != nil {
					t.Fatal(err)
				}
				other := f.start(t, runner.JobSpec{ID: "other", Shell: "echo secret > secret; chmod 666 secret; echo ready; sleep 1000"})
				f.awaitOutput(t, other, 1)
				var script strings.Builder
				names := make([]string, 0, len(probes))
				for name := range probes {
					names = append(names, name)
				}
				slices.Sort(names)
				for i, name := range names {
					fmt.Fprintf(&script, "if ( %s ) </dev/null >/dev/null 2>&1; then echo %d; fi\n", probes[name], i)
				}
				result := f.run(t, runner.JobSpec{Isolation: proxyproto.IsolationStrict, Shell: script.String() + "echo done", Environment: map[string]string{
					"ROOT": f.config.Root, "AGENT": strconv.Itoa(os.Getpid()), "CGROUP": f.config.Cgroups.Node.Unified,
				}})
				text := f.output(t, "job", "stdout")
				if result.ExitCode != 0 || !strings.HasSuffix(text, "done\n") {
					t.Errorf("result %+v, output %q, want all probes tried", result, text)
				}
				for line := range strings.Lines(strings.TrimSuffix(text, "done\n")) {
					if i, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && i < len(names) {
						t.Errorf("a job could %s: %s", names[i], probes[names[i]])
					}
				}
			})
		}
	}
}

// TestIsolation (T2) tells the levels apart by what the job finds out about itself.
func TestIsolation(t *testing.T) {
	needsRoot(t)
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	const look = `grep -c 'NoNewPrivs:.1' /proc/self/status; readlink /proc/self/ns/mnt; id -u; id -g; pwd; touch in-workspace "$TMPDIR/in-tmp" && echo written; test -S "$WEIR_DISCOVERY" && echo discovery; echo $$`
	own, root := runner.Users{Own: runner.DefaultUIDs}, runner.Users{Root: true}
	tests := map[string]struct {
		users                  runner.Users
		spec                   runner.JobSpec
		wantNoNewRights        string
		wantOwnMounts, wantPid bool
		wantUser, wantGroup    string
	}{
		"none, as root":              {root, runner.JobSpec{Isolation: proxyproto.IsolationNone}, "0", false, true, "0", "0"},
		"none":                       {runner.Users{Own: runner.DefaultUIDs, Root: true}, runner.JobSpec{Isolation: proxyproto.IsolationNone}, "0", false, true, "own", "own"},
		"default, as root":           {root, runner.JobSpec{Isolation: proxyproto.IsolationDefault}, "1", true, true, "0", "0"},
		"default":                    {own, runner.JobSpec{Isolation: proxyproto.IsolationDefault}, "1", true, false, "own", "own"},
		"what it is by itself":       {own, runner.JobSpec{}, "1", true, false, "own", "own"},
		"strict":                     {own, runner.JobSpec{Isolation: proxyproto.IsolationStrict}, "1", true, false, "own", "own"},
		"another user":               {own, runner.JobSpec{User: "65534", Group: "daemon"}, "1", true, false, "65534", "1"},
		"another group":              {own, runner.JobSpec{Group: "daemon"}, "1", true, false, "own", "1"},
		"strict and another user":    {own, runner.JobSpec{Isolation: proxyproto.IsolationStrict, User: "4242"}, "1", true, false, "4242", "4242"},
		"another group of the agent": {root, runner.JobSpec{Group: "4242"}, "1", true, true, "0", "4242"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for backend, detect := range backends {
				t.Run(backend, func(t *testing.T) {
					f := newFixture(t, detect, inFolder(t, disktest.Reachable(t)), as(test.users))
					test.spec.Shell = look
					job := f.start(t, test.spec)
					result := finished(t, job)
					lines := strings.Split(strings.TrimSpace(f.output(t, job.ID(), "stdout")), "\n")
					if len(lines) != 8 {
						t.Fatalf("output %q, %q, result %+v", lines, f.output(t, job.ID(), "stderr"), result)
					}
					if lines[0] != test.wantNoNewRights || (lines[1] != mounts) != test.wantOwnMounts {
						t.Errorf("no new rights %s, mounts %s, want %s, and own mounts %t", lines[0], lines[1], test.wantNoNewRights, test.wantOwnMounts)
					}
					for i, want := range []string{test.wantUser, test.wantGroup} {
						if number, err := strconv.Atoi(lines[2+i]); err != nil || lines[2+i] != want && (want != "own" || number < 200_000 || number > 265_535) {
							t.Errorf("user and group %q, want %s and %s", lines[2:4], test.wantUser, test.wantGroup)
						}
					}
					if want := filepath.Join(f.config.Root, "jobs", job.ID(), "work"); lines[4] != want || lines[5] != "written" || lines[6] != "discovery" {
						t.Errorf("workspace %q, want %s, that it can write, and a discovery socket", lines[4:7], want)
					}
					// Outside, a process is known by another number than in a namespace of its own.
					if (lines[7] == strconv.Itoa(result.Pid)) != test.wantPid {
						t.Errorf("process %s in there, %d out here", lines[7], result.Pid)
					}
				})
			}
		})
	}
}

// TestStrictJobsEndAsOthers do: by signals, by exit codes, by being asked.
func TestStrictJobsEndAsOthers(t *testing.T) {
	needsRoot(t)
	tests := map[string]struct {
		shell string
		act   func(f *fixture, job *runner.Job) error
		want  proxyproto.Result
	}{
		"by itself":             {shell: "exit 42", want: proxyproto.Result{Outcome: proxyproto.OutcomeExited, ExitCode: 42}},
		"by its own signal":     {shell: "kill -USR2 $$", want: proxyproto.Result{Outcome: proxyproto.OutcomeSignaled, ExitCode: -1, Signal: "SIGUSR2"}},
		"it is not there":       {shell: "", want: proxyproto.Result{Outcome: proxyproto.OutcomeStartFailed, ExitCode: -1}},
		"leaving others behind": {shell: "setsid sleep 1000 & sleep 1000 & exit 3", want: proxyproto.Result{Outcome: proxyproto.OutcomeExited, ExitCode: 3}},
		"it is signaled": {
			shell: "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done",
			act: func(_ *fixture, job *runner.Job) error {
				return job.Interrupt(runner.Interruption{Signal: "SIGUSR1", RootOnly: true, Grace: never})
			},
			want: proxyproto.Result{Outcome: proxyproto.OutcomeExited, ExitCode: 9, Interrupted: true},
		},
		"it is asked": {
			shell: "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done",
			act: func(_ *fixture, job *runner.Job) error {
				return job.Interrupt(runner.Interruption{Signal: "SIGTERM", Reason: "x", Grace: patience})
			},
			want: proxyproto.Result{Outcome: proxyproto.OutcomeExited, Interrupted: true},
		},
		"it is stopped, with a grace": {
			shell: "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done",
			act:   func(_ *fixture, job *runner.Job) error { return job.Stop("x", patience) },
			want:  proxyproto.Result{Outcome: proxyproto.OutcomeStopped, ExitCode: 5},
		},
		"it is stopped at once": {
			shell: "echo ready; sleep 1000",
			act:   func(_ *fixture, job *runner.Job) error { return job.Stop("x", 0) },
			want:  proxyproto.Result{Outcome: proxyproto.OutcomeStopped, ExitCode: -1, Signal: "SIGKILL"},
		},
		"the agent goes and comes back": {
			shell: "trap 'exit 6' USR1; echo ready; while :; do sleep 0.01; done",
			act: func(f *fixture, _ *runner.Job) error {
				if err := f.Leave(); err != nil {
					return err
				}
				opened, err := runner.Open(f.config)
				if err != nil {
					return err
				}
				f.Runner = opened
				return opened.Job("job").Interrupt(runner.Interruption{Signal: "SIGUSR1", RootOnly: true, Grace: never})
			},
			want: proxyproto.Result{Outcome: proxyproto.OutcomeExited, ExitCode: 6, Interrupted: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onEachBackendWith(t, own, func(t *testing.T, f *fixture) {
				spec := runner.JobSpec{Isolation: proxyproto.IsolationStrict, Shell: test.shell}
				if test.shell == "" {
					spec.Argv = []string{"/nowhere/at/all"}
				}
				job := f.start(t, spec)
				if test.act != nil {
					f.awaitOutput(t, job, 1)
					if err := test.act(f, job); err != nil {
						t.Fatal(err)
					}
					job = f.Job("job")
				}
				result := finished(t, job)
				if result.Outcome != test.want.Outcome || result.ExitCode != test.want.ExitCode || result.Signal != test.want.Signal || result.Interrupted != test.want.Interrupted {
					t.Errorf("result %+v, want %+v", result, test.want)
				}
				if f.Runner.Job("job") != nil {
					if err := job.Release(); err != nil {
						t.Error(err)
					}
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRefusedUsers refuses users that cannot do their work, and says why.
func TestRefusedUsers(t *testing.T) {
	needsRoot(t)
	tests := map[string]struct {
		spec runner.JobSpec
		want string
	}{
		"nobody knows it":       {runner.JobSpec{User: "no-such-user"}, `user "no-such-user": unknown on this node`},
		"nobody knows its kind": {runner.JobSpec{Group: "no-such-group"}, `group "no-such-group": unknown on this node`},
		"root, strictly":        {runner.JobSpec{Isolation: proxyproto.IsolationStrict, User: "root", Group: "daemon"}, "needs a user other than root"},
		"its way is closed":     {runner.JobSpec{User: "65534", Isolation: proxyproto.IsolationNone}, "is not accessible to other users"},
	}
	f := newFixture(t, backends["as a process tree"])
	if err := os.Chmod(filepath.Dir(f.config.Root), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		test.spec.ID, test.spec.Shell, test.spec.Lease = "job", "true", patience
		if _, err := f.Start(f.ctx, test.spec); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestNotices reach a job that is another user, and are not led elsewhere by it.
func TestNotices(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, backends["as a process tree"], inFolder(t, disktest.Reachable(t)))
	elsewhere := t.TempDir()
	job := f.start(t, runner.JobSpec{User: "65534", Shell: `trap 'cat "$WEIR_NOTICE"; echo; rm -r .weir; ln -s ` + elsewhere + ` .weir; echo led' USR1; echo ready; while :; do sleep 0.01; done`})
	f.awaitOutput(t, job, 1)
	notice := runner.Interruption{Signal: "SIGUSR1", Reason: "x", Grace: time.Hour, Notice: []byte("go")}
	if err := job.Interrupt(notice); err != nil {
		t.Fatal(err)
	}
	if lines := f.awaitOutput(t, job, 3); lines[1] != "go" {
		t.Errorf("output %q, want the notice", lines)
	}
	if err := job.Interrupt(notice); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("the agent wrote %v, %v where a job has led it", entries, err)
	}
	if err := job.Stop("x", 0); err != nil {
		t.Fatal(err)
	}
	finished(t, job)
}

// TestAgentWithoutRoot does what it can, and says what it cannot.
func TestAgentWithoutRoot(t *testing.T) {
	needsRoot(t)
	folder, err := os.MkdirTemp("", "weir-plain-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	// Where the programs are, nobody else may go.
	proxy := filepath.Join(folder, "weir-jobproxy")
	program, err := os.ReadFile(proxyPath)
	if err == nil {
		err = os.WriteFile(proxy, program, 0o755)
	}
	const nobody = 65534
	if err := errors.Join(err, os.Chmod(folder, 0o755), os.Mkdir(filepath.Join(folder, "root"), 0o700), os.Chown(filepath.Join(folder, "root"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	agent := exec.Command("/proc/self/exe", filepath.Join(folder, "root"), proxy)
	agent.Dir = "/"
	agent.Env = []string{"WEIR_TEST_ACT=plain-agent"}
	agent.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	text, err := agent.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, want := range []string{
		"agent is not root",
		"none: exited with 4, no new rights: 0",
		"default: exited with 4, no new rights: 1",
		"itself: exited with 4, no new rights: 1",
		`start job "strict": isolation strict: not supported on this node: agent is not root`,
		`start job "tmpfs": tmpfs: not supported on this node: agent is not root`,
		`start job "root": user "root", group "": the agent is not root, so its jobs can only run as the agent's own user`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
