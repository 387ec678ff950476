package runner_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// patient is how long a probe may take that is to end by itself.
const patient = time.Minute

// TestProbeIsOfTheJob has a probe find out about itself what the job has found out: who it is,
// what it sees and what it may.
func TestProbeIsOfTheJob(t *testing.T) {
	needsRoot(t)
	const look = `for n in mnt pid ipc uts net user; do readlink /proc/self/ns/$n; done; grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status; cat /proc/self/cgroup; id -u; id -g; pwd; echo $GREETING; ls / /dev; cat secret; test -d /proc/$$ && echo known`
	for name, spec := range map[string]runner.JobSpec{
		"none":                    {Isolation: proxyproto.IsolationNone},
		"default":                 {Isolation: proxyproto.IsolationDefault},
		"root":                    {User: "root"},
		"another user":            {User: "65534", Group: "daemon"},
		"strict":                  {Isolation: proxyproto.IsolationStrict},
		"strict and another user": {Isolation: proxyproto.IsolationStrict, User: "4242"},
	} {
		t.Run(name, func(t *testing.T) {
			for backend, detect := range backends {
				t.Run(backend, func(t *testing.T) {
					f := newFixture(t, detect, everyWay(t))
					spec.Environment = map[string]string{"GREETING": "hello"}
					spec.Shell = `echo secret > secret; (` + look + `) > seen; echo ready; sleep 1000`
					job := f.start(t, spec)
					f.awaitOutput(t, job, 1)
					err := job.Probe(t.Context(), []string{"/bin/sh", "-c", `(` + look + `) > probed; cmp seen probed || { diff seen probed | head -c 150; exit 1; }`}, patient)
					if err != nil {
						t.Errorf("what a probe sees is not what its job sees: %v", err)
					}
				})
			}
		})
	}
}

// TestProbeTakesNoOrdersFromTheJob (T2) gives a job variables that are orders to programs of Go, and to the
// loader of programs: the proxy, which starts a probe with rights of its own, must not heed them. A
// program that is loaded so says what it does at its start, which would be the end of the probe's output.
func TestProbeTakesNoOrdersFromTheJob(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000", Environment: map[string]string{"GODEBUG": "inittrace=1", "EMPTY": "", "AND": "a=b"}})
		f.awaitOutput(t, job, 1)
		err := job.Probe(t.Context(), []string{"sh", "-c", `test "$GODEBUG,${EMPTY-unset},$AND" = inittrace=1,,a=b && exit 7`}, patient)
		if err == nil || err.Error() != "exits with 7" {
			t.Errorf("got %v, want only that it exits with 7", err)
		}
	})
}

// TestProbes runs probes of a job one after the other, which goes on.
func TestProbes(t *testing.T) {
	onEachBackend(t, func(t *testing.T, f *fixture) {
		job := f.start(t, runner.JobSpec{Shell: "echo ready; sleep 1000"})
		f.awaitOutput(t, job, 1)
		for name, test := range map[string]struct {
			argv    []string
			timeout time.Duration
			want    string
		}{
			"it is well":                    {[]string{"true"}, patient, ""},
			"it is not, and says why":       {[]string{"sh", "-c", "echo warming; echo up >&2; exit 3"}, patient, "exits with 3: warming up"},
			"it says too much":              {[]string{"sh", "-c", "seq 100000; echo at last; exit 1"}, patient, "at last"},
			"it is killed":                  {[]string{"sh", "-c", "kill -9 $$"}, patient, "killed by SIGKILL"},
			"there is no such program":      {[]string{"no-such-program"}, patient, `"no-such-program"`},
			"it takes too long":             {[]string{"sh", "-c", "sleep 1000"}, 100 * time.Millisecond, "takes longer than 100ms"},
			"it leaves somebody who prints": {[]string{"sh", "-c", "(sleep 1000; echo late) & exit 4"}, patient, "exits with 4"},
			"no time at all":                {[]string{"true"}, 0, "timeout_millis"},
			"no program":                    {nil, patient, "argv"},
		} {
			err := job.Probe(t.Context(), test.argv, test.timeout)
			if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || len(err.Error()) > 300) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
		}
		if job.Result() != nil {
			t.Fatalf("the job has ended: %+v", job.Result())
		}

		// One at a time.
		var both sync.WaitGroup
		refused := make(chan error, 8)
		for range 8 {
			both.Go(func() { refused <- job.Probe(t.Context(), []string{"sleep", "0.2"}, patient) })
		}
		both.Wait()
		close(refused)
		passed := 0
		for err := range refused {
			if err == nil {
				passed++
			} else if !strings.Contains(err.Error(), "already running") {
				t.Error(err)
			}
		}
		if passed == 0 {
			t.Error("none of several probes at once has passed")
		}

		// The job's end does not wait for a probe.
		probed := make(chan error, 1)
		go func() {
			probed <- job.Probe(t.Context(), []string{"sh", "-c", "echo probing >> probing; sleep 1000"}, 10*patient)
		}()
		eventually(t, "the probe runs", func() bool {
			_, err := os.Stat(f.config.Root + "/jobs/" + job.ID() + "/work/probing")
			return err == nil
		})
		if err := job.Stop("enough", 0); err != nil {
			t.Fatal(err)
		}
		if result := finished(t, job); result.Reason != "enough" {
			t.Errorf("result %+v", result)
		}
		if err := <-probed; err == nil {
			t.Error("a probe that was ended with its job has passed")
		}
		if err := job.Probe(t.Context(), []string{"true"}, patient); err == nil {
			t.Error("a probe of a job that has ended has passed")
		}
	})
}

// stopsAllOthers is a job that lets no program be loaded from the file p for a while, and then stops
// whatever else its user has: what loads the program is among that.
const stopsAllOthers = `cp /bin/true p; exec perl -e '
	$| = 1; $SIG{IO} = sub { for (glob "/proc/[0-9]*") { my ($p) = /(\d+)$/; kill "STOP", $p if $p != $$; } print "stopped\n"; };
	open(my $f, "<", "p") or die; fcntl($f, 1024, 1) or die "lease: $!"; print "ready\n"; sleep 1 while 1;'`

// TestProbeDoesNotHoldUpItsProxy (T2) has a job stop its own probe in the moment in which that gets its
// program: the job is ended all the same.
func TestProbeDoesNotHoldUpItsProxy(t *testing.T) {
	needsRoot(t)
	for _, isolation := range []string{proxyproto.IsolationDefault, proxyproto.IsolationStrict} {
		t.Run(isolation, func(t *testing.T) {
			f := newFixture(t, backends["with cgroups"], everyWay(t))
			job := f.start(t, runner.JobSpec{Isolation: isolation, Shell: stopsAllOthers})
			f.awaitOutput(t, job, 1)
			probed := make(chan error, 1)
			go func() { probed <- job.Probe(t.Context(), []string{"./p"}, time.Hour) }()
			f.awaitOutput(t, job, 2)
			if err := job.Stop("it has to", 0); err != nil {
				t.Fatal(err)
			}
			if result := finished(t, job); result.Outcome != proxyproto.OutcomeStopped {
				t.Errorf("result %+v, want it stopped", result)
			}
			if err := <-probed; err == nil {
				t.Error("the probe passed")
			}
		})
	}
}
