package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/api/discovery"
	"weir/messages/apipb"
)

// states counts instances by state.
func states(instances []*apipb.Instance) map[string]int {
	counts := map[string]int{}
	for _, in := range instances {
		counts[in.GetState()]++
	}
	return counts
}

// verb runs a verb as the operator, which may take as long as a test waits.
func (c *cluster) verb(t testing.TB, arguments ...string) (printed string, code int) {
	t.Helper()
	return weir(t, c.reached(arguments...)...)
}

// reached adds to a verb what the operator needs to reach the cluster.
func (c *cluster) reached(arguments ...string) []string {
	var addresses []string
	for _, name := range replicaNames {
		if address, ok := c.addresses[name]; ok {
			addresses = append(addresses, address)
		}
	}
	arguments = append(arguments, "--addresses", strings.Join(addresses, ","), "--credentials", c.certs("operator-admin"))
	if !slices.Contains(arguments, "--timeout") {
		arguments = append(arguments, "--timeout", (patience - answerTime).String())
	}
	return arguments
}

// cli runs a verb as the operator, which must end well.
func (c *cluster) cli(t testing.TB, arguments ...string) (printed string) {
	t.Helper()
	printed, code := c.verb(t, arguments...)
	if code != 0 {
		t.Fatalf("weir %v: exit code %d\n%s", arguments, code, printed)
	}
	return printed
}

// health returns the answer of weir status. It asks again when no replica has answered in time, as
// on a busy machine.
func (c *cluster) health(t testing.TB) (printed string) {
	t.Helper()
	const unreachable = 3
	until(t, "a replica answers", func() string {
		var code int
		if printed, code = c.verb(t, "status"); code == unreachable {
			return printed
		}
		return ""
	})
	return printed
}

// instances are those that the command line shows, once they are as many as are wanted
// by state.
func (c *cluster) instances(t testing.TB, operation string, want map[string]int) []*apipb.Instance {
	t.Helper()
	var seen apipb.WatchInstancesResponse
	until(t, fmt.Sprint("instances are ", want), func() string {
		printed := c.cli(t, "op", "instances", operation, "-o", "json")
		if err := protojson.Unmarshal([]byte(printed), &seen); err != nil {
			t.Fatalf("op instances: %v\n%s", err, printed)
		}
		for state, count := range want {
			if states(seen.GetInstances())[state] != count {
				return printed
			}
		}
		return ""
	})
	return seen.GetInstances()
}

// aService is found from outside and from inside, stopped gracefully, and driven off
// its node.
func aService(t *testing.T, c *cluster) {
	dir := c.folder(t)
	task := leaving(3, "serve", dir, filepath.Join(dir, "go")).with("port_count", 2).with("restart_completed_jobs", true)
	service := c.start(t, one(task, in("service")))
	c.runs(t, service, 3)
	live := c.instances(t, service, map[string]int{"live": 3})
	var ports []int32
	for _, in := range live {
		ports = append(ports, in.GetPorts()...)
		if in.GetHost() == "" || in.GetNode() != c.node("n3") {
			t.Errorf("%v: where is it reached?", in)
		}
	}
	slices.Sort(ports)
	if len(ports) != 6 || len(slices.Compact(ports)) != 6 {
		t.Errorf("ports %v, want six different ones", ports)
	}
	for _, in := range live {
		until(t, "job "+in.GetJobId()+" knows of three", func() string { return heardOf(t, dir, in.GetJobId(), map[string]string{}) })
	}
	peerGoes(t, c, service, dir, live)
	gracefulAbort(t, c, service, dir)
	drainByInterruption(t, c)
}

// heardOf returns "" once the job has heard of three peers with the states that are
// wanted, all others live.
func heardOf(t testing.TB, dir, job string, want map[string]string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, job+".heard"))
	if err != nil {
		return err.Error()
	}
	var last *discovery.Peers
	for line := range strings.Lines(string(data)) {
		var change discovery.Change
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil {
			t.Fatalf("job %s heard %q: %v", job, line, err)
		}
		if change.Peers != nil {
			last = change.Peers
		}
	}
	if last == nil || len(last.Instances) != 3 {
		return fmt.Sprintf("it has heard of %v", last)
	}
	for _, in := range last.Instances {
		expected := discovery.Live
		if state, ok := want[in.Job]; ok {
			expected = state
		}
		if in.State != expected || in.Self != (in.Job == job) || len(in.Ports) != 2 {
			return fmt.Sprintf("it has heard of %+v", in)
		}
	}
	return ""
}

// peerGoes interrupts an instance: all know that it is on its way out before it goes.
func peerGoes(t *testing.T, c *cluster, service, dir string, live []*apipb.Instance) {
	goes := live[0].GetJobId()
	c.interrupt(t, goes, time.Minute)
	for _, replica := range replicaNames {
		until(t, replica+" shows that it goes", func() string {
			var answer apipb.InstancesResponse
			if err := c.call(t.Context(), replica, "OperationService/Instances", object{"operation": service}, &answer); err != nil {
				return err.Error()
			}
			for _, in := range answer.GetInstances() {
				if in.GetJobId() == goes && in.GetState() == "draining" && in.GetReason() == "user_request" && in.GetDeadline() != nil {
					return ""
				}
			}
			return answer.String()
		})
	}
	for _, in := range live {
		until(t, "job "+in.GetJobId()+" knows that one goes", func() string {
			return heardOf(t, dir, in.GetJobId(), map[string]string{goes: discovery.Draining})
		})
	}
	release(t, dir)
	if ended := c.left(t, goes); ended.GetState() != "completed" {
		t.Errorf("it ended as %v, want it completed", ended)
	}
	c.instances(t, service, map[string]int{"live": 3, "gone": 1, "draining": 0})
	if err := os.Remove(filepath.Join(dir, "go")); err != nil {
		t.Fatal(err)
	}
}

// gracefulAbort stops the whole service: each instance ends what it has.
func gracefulAbort(t *testing.T, c *cluster, service, dir string) {
	// One has only just taken the place of the one that went.
	for _, job := range c.runs(t, service, 3) {
		until(t, "job "+job.GetId()+" listens", func() string {
			if _, err := os.Stat(filepath.Join(dir, job.GetId()+".heard")); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	wantIn(t, "op abort", c.cli(t, "op", "abort", service, "--interrupt-timeout", "2m"), []string{"2m0s to stop"})
	for _, in := range c.instances(t, service, map[string]int{"draining": 3, "live": 0}) {
		if in.GetState() == "draining" && in.GetReason() != "operation_abort" {
			t.Errorf("%v leaves, want it for the abort of its operation", in)
		}
	}
	if state := c.get(t, service).GetState(); state != "aborting" {
		t.Errorf("the operation is %s while its jobs leave", state)
	}
	release(t, dir)
	op := c.ends(t, service, "aborted")
	if got := op.GetProgress(); got.GetAborted() != 0 || got.GetFailed() != 0 {
		t.Errorf("%v, want all instances to have ended well", got)
	}
	stopped := 0
	for _, job := range c.jobs(t, service, "completed") {
		if job.GetInterruption().GetReason() == "operation_abort" {
			stopped++
		}
	}
	if stopped != 3 {
		t.Errorf("%d jobs ended well because of the abort, want 3", stopped)
	}
}

// drainByInterruption empties a node in time: jobs that can be asked are, others are
// killed.
func drainByInterruption(t *testing.T, c *cluster) {
	node, dir := c.node("n3"), c.folder(t)
	asked := c.start(t, one(leaving(2, "leave", dir, "0"), in("service")))
	killed := c.start(t, one(small(1, "run", c.folder(t), "5m"), in("service")))
	c.runs(t, killed, 1)
	c.runs(t, asked, 2)
	until(t, "both hear signals", func() string { return fewer(len(witnessed(t, dir)), 2) })
	wantIn(t, "node drain", c.cli(t, "node", "drain", node, "--interrupt-timeout", "2m", "--reason", "new kernel", "--wait", "--quiet"), []string{"empty", "new kernel"})
	c.ends(t, asked, "completed")
	for _, job := range c.jobs(t, asked) {
		if how := job.GetInterruption(); how.GetReason() != "node_drain" || !strings.Contains(how.GetMessage(), "new kernel") {
			t.Errorf("it was asked to leave by %v", how)
		}
	}
	until(t, "the other one is aborted", func() string {
		for _, job := range c.jobs(t, killed) {
			if job.GetAbortReason() == "interruption_unsupported" {
				return ""
			}
		}
		return c.describe(t, killed)
	})
	c.cli(t, "node", "undrain", node)
	c.abort(t, killed)
}

func fewer(have, want int) string {
	if have < want {
		return fmt.Sprintf("%d of %d", have, want)
	}
	return ""
}
