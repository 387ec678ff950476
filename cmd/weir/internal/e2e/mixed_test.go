package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/rolling"
	"weir/messages/apipb"
)

// The builds whose programs a mixed cluster runs.
const (
	previousBuild = "previous"
	currentBuild  = "current"
)

// upgradesVariable, set to all, asks for every order of an upgrade; by default there is one.
const upgradesVariable = "WEIR_TEST_UPGRADES"

// upgradeOrders say in which order the processes of a cluster are replaced.
var upgradeOrders = map[string]func(agents, followers []string, leader string) []string{
	"agents first": func(agents, followers []string, leader string) []string {
		return slices.Concat(agents, followers, []string{leader})
	},
	"followers first": func(agents, followers []string, leader string) []string {
		return slices.Concat(followers, []string{leader}, agents)
	},
	"leader first": func(agents, followers []string, leader string) []string {
		return slices.Concat([]string{leader}, agents, followers)
	},
}

// mixedAgents are the agents of a mixed cluster.
var mixedAgents = []string{"n1", "n2", "n3", "n4"}

// mixed is a cluster some of whose processes are of the previous version.
type mixed struct {
	*cluster
	builds map[string]*launcher
	// runs is the build that each process is of.
	runs map[string]string
	// ports are those that agents give to jobs.
	ports map[string]string
	meter *rolling.Meter
	// pauses are how long writes paused, by what was done.
	pauses map[string][]time.Duration
}

// newMixed starts a cluster of the previous version.
func newMixed(t *testing.T) *mixed {
	t.Helper()
	m := &mixed{builds: map[string]*launcher{previousBuild: newLauncher()}, runs: map[string]string{}, ports: map[string]string{}, pauses: map[string][]time.Duration{}}
	m.builds[previousBuild].program = previousPrograms(t) + "/weir"
	// After the processes that it started.
	t.Cleanup(m.builds[previousBuild].close)
	m.cluster = prepareCluster(t, here, mixedAgents...)
	m.builds[currentBuild] = m.launcher
	m.more = []string{"--lease", "1m"}
	for _, name := range mixedAgents {
		m.ports[name] = freeRange(t, 4)
	}
	for _, name := range slices.Concat(replicaNames, mixedAgents) {
		m.begin(name, previousBuild)
	}
	m.ready(t, len(mixedAgents))
	return m
}

// begin starts a process of a build.
func (m *mixed) begin(name, build string) *process {
	m.runs[name] = build
	if slices.Contains(replicaNames, name) {
		return m.launch(name, m.builds[build], m.replicaFlags(name)...)
	}
	return m.launch(name, m.builds[build], m.agentFlags(name, "--on-stop", "keep", "--ports", m.ports[name])...)
}

// back waits until a process that was started does its part.
func (m *mixed) back(t *testing.T, name string, p *process) {
	t.Helper()
	if slices.Contains(mixedAgents, name) {
		p.says(t, "msg=registered")
		return
	}
	p.says(t, "ready: replica")
	until(t, name+" has all that was committed", func() string {
		if err := m.call(t.Context(), name, "NodeService/List", object{}, &apipb.ListNodesResponse{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// step does something to the cluster, and notes how long writes paused.
func (m *mixed) step(t *testing.T, what string, do func()) {
	t.Helper()
	began := time.Now()
	do()
	pause, err := m.meter.Pause(t.Context(), began)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	m.pauses[what] = append(m.pauses[what], pause)
}

// replace replaces a process by one of another build.
func (m *mixed) replace(t *testing.T, name, build string) {
	t.Helper()
	what := "an agent is replaced"
	if slices.Contains(replicaNames, name) {
		what = "a follower is replaced"
		if m.leader(t) == name {
			// It hands over as it stops.
			what = "the leader, of the " + m.runs[name] + " build, is replaced"
		}
	}
	m.step(t, what, func() {
		if err := m.process(name).stop(); err != nil {
			t.Fatal(err)
		}
		m.back(t, name, m.begin(name, build))
	})
}

// killSome kills the leader, which begins again as the build that it was, and an agent, which begins again
// as the other one.
func (m *mixed) killSome(t *testing.T, build string) {
	t.Helper()
	leader := m.leader(t)
	m.step(t, "the leader is killed", func() {
		m.process(leader).kill()
		if next := m.leader(t); next == leader {
			t.Fatalf("%s leads though it was killed", next)
		}
		m.back(t, leader, m.begin(leader, m.runs[leader]))
	})
	m.step(t, "an agent is killed", func() {
		m.process("n4").kill()
		m.back(t, "n4", m.begin("n4", build))
	})
}

// become makes all processes those of a build, one after another.
func (m *mixed) become(t *testing.T, build string, order func(agents, followers []string, leader string) []string) {
	t.Helper()
	leader := m.leader(t)
	names := order(mixedAgents, slices.DeleteFunc(slices.Clone(replicaNames), func(name string) bool { return name == leader }), leader)
	for i, name := range names {
		m.replace(t, name, build)
		if i == len(names)/2 {
			m.killSome(t, build)
			m.clients(t)
		}
	}
	for name, runs := range m.runs {
		if runs != build {
			m.replace(t, name, build)
		}
	}
}

// clients has the command lines of both builds read and write.
func (m *mixed) clients(t *testing.T) {
	t.Helper()
	spec := write(t, filepath.Join(t.TempDir(), "spec.yaml"), "tasks: {t: {command: [echo, hello], job_count: 1, cpu_limit: 0.1, memory_limit: 64MiB}}\n")
	for build, folder := range map[string]string{previousBuild: previousPrograms(t), currentBuild: programs} {
		run := func(arguments ...string) string {
			t.Helper()
			printed, code := weirOf(t, folder+"/weir", m.reached(arguments...)...)
			if code != 0 {
				t.Errorf("the %s weir %s: exit code %d\n%s", build, strings.Join(arguments, " "), code, printed)
			}
			return strings.TrimSpace(printed)
		}
		operation := run("op", "start", "-f", spec, "--wait", "--quiet")
		if t.Failed() {
			t.FailNow()
		}
		operation = strings.Fields(operation)[0]
		job := m.jobs(t, operation)[0].GetId()
		if printed := run("op", "logs", operation); !strings.Contains(printed, "hello") {
			t.Errorf("the %s client reads %q of a job", build, printed)
		}
		for _, verb := range []string{
			"status", "op list", "op get " + operation, "op events " + operation, "op statistics " + operation,
			"job list " + operation, "job get " + job, "node list", "node get " + m.node("n1"), "pool list", "tree list", "cluster members", "whoami",
			"events --operation " + operation, "get scheduler", "group list", "account list", "store list",
		} {
			run(strings.Fields(verb)...)
		}
	}
}

// finishUpgrade raises the version of the cluster, after which there is no way back.
func (m *mixed) finishUpgrade(t *testing.T) {
	t.Helper()
	m.step(t, "the upgrade is finished", func() {
		// Agents tell a new leader what they can when they register.
		until(t, "the upgrade can be finished", func() string {
			printed, code := m.verb(t, "cluster", "upgrade", "finish", "--yes")
			if code != 0 {
				return printed
			}
			return ""
		})
	})
	follower := replicaNames[0]
	if m.leader(t) == follower {
		follower = replicaNames[1]
	}
	if err := m.process(follower).stop(); err != nil {
		t.Fatal(err)
	}
	former := m.begin(follower, previousBuild)
	if code := former.exit(t); code != 13 {
		t.Errorf("%s of the previous build on the folder of %s: exit code %d, want 13\n%s", follower, currentBuild, code, former.printed())
	}
	m.back(t, follower, m.begin(follower, currentBuild))
	m.killSome(t, currentBuild)
	m.clients(t)
}

// TestMixedVersions (V1) upgrades a cluster of the previous version under load, one process after another,
// goes back, upgrades it again and finishes, while processes are killed: no operation fails, no job is aborted, and no
// write that was acknowledged is lost. Clients of both versions work throughout.
func TestMixedVersions(t *testing.T) {
	orders := []string{"agents first"}
	if os.Getenv(upgradesVariable) == "all" {
		orders = []string{"agents first", "followers first", "leader first"}
	}
	for _, order := range orders {
		t.Run(order, func(t *testing.T) {
			if len(orders) == 1 {
				// Pauses are measured with nothing else beside.
				t.Parallel()
			}
			m := newMixed(t)
			var err error
			if m.meter, err = rolling.NewMeter(t.Context(), m.operator(t), "meter"); err != nil {
				t.Fatal(err)
			}
			load := m.startLoad(t)
			for _, build := range []string{currentBuild, previousBuild, currentBuild} {
				began := time.Now()
				load.startMap(t)
				m.become(t, build, upgradeOrders[order])
				load.unharmed(t)
				t.Logf("all processes are of the %s build after %v", build, time.Since(began).Round(time.Millisecond))
			}
			m.finishUpgrade(t)
			load.unharmed(t)
			load.finish(t)
			writes := m.meter.Count()
			if err := m.meter.Close(t.Context()); err != nil {
				t.Error(err)
			}
			for what, pauses := range m.pauses {
				slices.Sort(pauses)
				t.Logf("%s: writes paused for %v (p50), %v (worst of %d)", what, pauses[len(pauses)/2].Round(time.Millisecond), pauses[len(pauses)-1].Round(time.Millisecond), len(pauses))
			}
			t.Logf("%d writes were acknowledged, %d operations were started beside, none was lost", writes, len(load.submitted))
		})
	}
}
