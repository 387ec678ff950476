package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/api/discovery"
	"weir/messages/apipb"
)

// seen is what each replica, and each instance, has to know of the instances of a service.
type seen struct {
	*cluster
	operation, dir string
}

// says has every replica, and every instance, see what is wanted of instances by task: how an
// instance's state is shown.
func (s seen) says(t *testing.T, what string, want map[string]string) {
	t.Helper()
	for _, replica := range replicaNames {
		until(t, replica+" sees that "+what, func() string { return differs(want, s.shown(t, replica)) })
	}
	for task := range want {
		until(t, "the instance of "+task+" hears that "+what, func() string { return differs(want, s.heard(t, task)) })
	}
}

func differs(want, have map[string]string) string {
	for task, state := range want {
		if !strings.HasPrefix(have[task], state) {
			return fmt.Sprintf("it sees %q, want %q", have, want)
		}
	}
	return ""
}

// word tells how an instance is shown.
func word(state string, ready bool, unready string) string {
	switch {
	case ready:
		return state + ", ready"
	case unready != "":
		return state + ", not ready: " + unready
	}
	return state
}

// shown is what a replica shows, by task.
func (s seen) shown(t *testing.T, replica string) map[string]string {
	t.Helper()
	var answer apipb.WatchInstancesResponse
	printed, code := weir(t, "op", "instances", s.operation, "-o", "json", "--addresses", s.addresses[replica], "--credentials", s.certs("operator-admin"))
	if code != 0 {
		return map[string]string{"": printed}
	}
	if err := protojson.Unmarshal([]byte(printed), &answer); err != nil {
		t.Fatalf("op instances: %v\n%s", err, printed)
	}
	states := map[string]string{}
	for _, in := range answer.GetInstances() {
		if in.GetState() != discovery.Gone {
			states[in.GetTask()] = word(in.GetState(), in.GetReady(), in.GetUnready())
		}
	}
	return states
}

// heard is what an instance has heard last, by task.
func (s seen) heard(t *testing.T, task string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, task+"-0.heard"))
	if err != nil {
		return map[string]string{"": err.Error()}
	}
	states := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var change discovery.Change
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil {
			t.Fatal(err)
		}
		if change.Peers == nil {
			continue
		}
		clear(states)
		for _, in := range change.Peers.Instances {
			if in.State != discovery.Gone {
				states[in.Task] = word(in.State, in.Ready, in.Unready)
			}
		}
	}
	return states
}

// TestReadiness (I4) has instances found to be ready, or say so: every replica and every
// instance knows, also after the agent was started again, and after all replicas were.
func TestReadiness(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1")
	ports := freeRange(t, 10)
	start := func() *process { return c.startAgent("n1", "--on-stop", "keep", "--ports", ports) }
	start()
	c.ready(t, 1)
	dir := c.folder(t)
	task := func(readiness object) object {
		own := leaving(1, "answer", dir).with("port_count", 1)
		if readiness != nil {
			own = own.with("readiness", readiness)
		}
		return own
	}
	up := filepath.Join(dir, "program-0.up")
	operation := c.start(t, object{"tasks": object{
		"http":    task(object{"http": "/ready", "period": "200ms"}),
		"tcp":     task(object{"tcp": true}),
		"program": task(object{"exec": []string{"/bin/sh", "-c", "test -e " + up + " || { echo no; exit 3; }"}}),
		"socket":  task(object{"socket": true}),
		"plain":   task(nil),
	}})
	s := seen{c, operation, dir}
	const ready, not = "live, ready", "live, not ready: "
	s.says(t, "some are found or need not say anything, others are not ready", map[string]string{
		"http": not + "503 Service Unavailable warming up", "tcp": ready, "program": not + "exits with 3: no", "socket": "live", "plain": ready})
	for _, task := range []string{"http", "program"} {
		put(t, filepath.Join(dir, task+"-0.up"), "")
	}
	put(t, filepath.Join(dir, "socket-0.say"), "ready\n")
	put(t, filepath.Join(dir, "plain-0.say"), "not_ready\n")
	all := map[string]string{"http": ready, "tcp": ready, "program": ready, "socket": ready, "plain": not + "reported by the instance"}
	s.says(t, "they have warmed up, and one is not well", all)
	printed := c.cli(t, "op", "instances", operation, "--ready")
	if strings.Contains(printed, "plain") || !strings.Contains(printed, "live, ready") {
		t.Errorf("op instances --ready:\n%s", printed)
	}

	if err := os.Remove(filepath.Join(dir, "http-0.up")); err != nil {
		t.Fatal(err)
	}
	all["http"] = not
	s.says(t, "one fails its probe", all)

	// The agent is upgraded: nobody is ready who was not, and nobody is less so.
	if err := c.process("n1").stop(); err != nil {
		t.Fatal(err)
	}
	start().says(t, "msg=registered")
	put(t, filepath.Join(dir, "http-0.up"), "")
	all["http"] = ready
	s.says(t, "the one is found to be well again by the next agent", all)

	// No replica remembers anything that is not in the log: agents say it again.
	for _, name := range replicaNames {
		c.process(name).kill()
	}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	s.says(t, "it was so", all)

	put(t, filepath.Join(dir, "plain-0.say"), "draining\n")
	all["plain"] = "draining"
	s.says(t, "one is about to leave", all)
	c.abort(t, operation)
}

// put makes a file, whole from the beginning.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// readyOf counts the ready instances of an operation, by node and in all.
func (c *cluster) readyOf(t *testing.T, operation string) (on map[string]int, all int) {
	t.Helper()
	var seen apipb.WatchInstancesResponse
	if err := protojson.Unmarshal([]byte(c.cli(t, "op", "instances", operation, "-o", "json")), &seen); err != nil {
		t.Fatal(err)
	}
	on = map[string]int{}
	for _, in := range seen.GetInstances() {
		if in.GetReady() {
			on[in.GetNode()]++
			all++
		}
	}
	return on, all
}

// TestSpread (I4, F.14.1) has the instances of a service be on all nodes, though any one of them
// had room for all.
func TestSpread(t *testing.T) {
	t.Parallel()
	agents := []string{"n1", "n2", "n3"}
	c := newCluster(t, here, agents...)
	for _, agent := range agents {
		c.startAgent(agent, "--ports", freeRange(t, 10), "--tags", agent)
	}
	c.ready(t, len(agents))
	// A node is given jobs from its first heartbeat on.
	for _, agent := range agents {
		c.ends(t, c.start(t, one(small(1).with("command", []string{"true"}), object{"scheduling_tag_filter": agent})), "completed")
	}
	const instances = 7
	operation := c.start(t, object{"tasks": object{"serve": leaving(instances, "answer", c.folder(t)).with("port_count", 1)}})
	until(t, "all are ready", func() string {
		_, all := c.readyOf(t, operation)
		return fewer(all, instances)
	})
	on, _ := c.readyOf(t, operation)
	for _, agent := range agents {
		if n := on[c.node(agent)]; n < instances/len(agents) || n > instances/len(agents)+1 {
			t.Errorf("the %d instances are on %v", instances, on)
		}
	}
	c.abort(t, operation)
}

// TestHandOver (I4, I7) drains a node on which all instances of a service run: each is replaced
// first, and told to go when its successor is ready. At no time fewer are ready than before.
func TestHandOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, here, "n1", "n2")
	c.startAgent("n1", "--ports", freeRange(t, 10))
	c.ready(t, 1)
	dir := c.folder(t)
	const instances = 3
	for cookie := range instances {
		put(t, filepath.Join(dir, fmt.Sprintf("serve-%d.up", cookie)), "")
	}
	service := leaving(instances, "answer", dir).with("port_count", 1).with("restart_completed_jobs", true).with("min_available", instances).
		with("readiness", object{"http": "/ready", "period": "200ms"})
	operation := c.start(t, object{"tasks": object{"serve": service}})
	until(t, "all are ready", func() string {
		_, all := c.readyOf(t, operation)
		return fewer(all, instances)
	})
	c.startAgent("n2", "--ports", freeRange(t, 10))
	c.ready(t, 2)
	c.cli(t, "node", "drain", c.node("n1"), "--interrupt-timeout", "10m")
	most := 0
	until(t, "all are ready on the other node", func() string {
		on, all := c.readyOf(t, operation)
		if most = max(most, all); all < instances {
			t.Errorf("%d instances are ready, want %d at any time: %v", all, instances, on)
		}
		return fewer(on[c.node("n2")], instances)
	})
	if most > instances+1 {
		t.Errorf("%d instances were ready at once, want one more than %d at most", most, instances)
	}
	c.cli(t, "node", "drain", c.node("n1"), "--wait")
	if progress := c.get(t, operation).GetProgress(); progress.GetFailed()+progress.GetAborted() != 0 || progress.GetRunning() != instances {
		t.Errorf("%v, want %d that run, and none lost", progress, instances)
	}
}
