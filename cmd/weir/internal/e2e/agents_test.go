package e2e

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/apipb"
)

// nodeRecord asks for a node of the cluster.
func (c *cluster) nodeRecord(t *testing.T, agent string) *apipb.Node {
	t.Helper()
	var answer apipb.ListNodesResponse
	c.ask(t, "NodeService/List", object{}, &answer)
	for _, node := range answer.GetNodes() {
		if node.GetId() == c.node(agent) {
			return node
		}
	}
	return &apipb.Node{}
}

// nodeIs waits for the state of a node.
func (c *cluster) nodeIs(t *testing.T, agent, state string) {
	t.Helper()
	until(t, agent+" is "+state, func() string {
		if node := c.nodeRecord(t, agent); node.GetState() != state {
			return protojson.Format(node)
		}
		return ""
	})
}

// agentDies kills an agent with its jobs running: they are ended by their own lease,
// and run again elsewhere. Then it comes back. Two agents have the network that the
// jobs need.
func agentDies(t *testing.T, c *cluster) {
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	c.startAgent("n4", "--network", "4", "--tags", "ssd,"+passing)
	c.nodeIs(t, "n4", "online")
	if tags := c.nodeRecord(t, "n4").GetTags(); !slices.Equal(tags, []string{passing, "ssd"}) && !slices.Equal(tags, []string{"ssd", passing}) {
		t.Errorf("tags of n4: %v", tags)
	}
	if tags := c.nodeRecord(t, "n1").GetTags(); !slices.Equal(tags, []string{"steady"}) {
		t.Errorf("tags of n1: %v", tags)
	}
	operation := c.start(t, one(small(3, "run", dir, release).with("network_limit", 1), in(passing)))
	for _, job := range c.runs(t, operation, 3) {
		if job.GetNode() != c.node("n4") {
			t.Errorf("%v is not on n4", job)
		}
	}
	c.startAgent("n5", "--network", "4", "--tags", passing)
	c.nodeIs(t, "n5", "online")
	c.process("n4").kill()
	killed := time.Now()
	op := c.becomes(t, operation, "has lost its jobs", func(op *apipb.Operation) bool { return op.GetProgress().GetAborted() == 3 })
	if by := op.GetProgress().GetAbortedByReason(); by["node_offline"] != 3 {
		t.Errorf("aborted by %v, want node_offline", by)
	}
	aborted := time.Since(killed)
	for _, job := range c.runs(t, operation, 3) {
		if job.GetNode() != c.node("n5") {
			t.Errorf("%v is not on n5", job)
		}
	}
	t.Logf("after the agent was killed its jobs were given up within %v, and ran again within %v", aborted.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
	for _, job := range c.jobs(t, operation, "aborted") {
		if job.GetNode() != c.node("n4") || job.GetAbortReason() != "node_offline" {
			t.Errorf("aborted was %v, want the jobs of n4 for node_offline", job)
		}
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 3 || p.GetFailed() != 0 {
		t.Errorf("progress %v", p)
	}
	for cookie, lines := range witnessed(t, dir) {
		if len(lines) != 3 || lines[0].job == lines[1].job || lines[2].what != "end" {
			t.Errorf("%s: %v, want one attempt that broke off and one that ended", cookie, lines)
		}
	}

	// The other way round, with an agent that is stopped in order.
	c.startAgent("n4", "--network", "4", "--tags", passing)
	c.nodeIs(t, "n4", "online")
	if err := c.process("n5").stop(); err != nil {
		t.Fatal(err)
	}
	again := c.start(t, one(small(2, "run", c.folder(t), "10ms").with("network_limit", 1), in(passing)))
	c.ends(t, again, "completed")
	for _, job := range c.jobs(t, again, "completed") {
		if job.GetNode() != c.node("n4") {
			t.Errorf("%v is not on n4", job)
		}
	}
	c.nodeIs(t, "n5", "offline")
}

// agentRestarts is killed and started again, and keeps its jobs.
func agentRestarts(t *testing.T, c *cluster) {
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	c.startAgent("n6", "--gpu", "0", "--memory", "100GiB", "--tags", passing)
	c.nodeIs(t, "n6", "online")
	// No other has so much memory.
	operation := c.start(t, one(small(2, "run", dir, release).with("memory_limit", "50GiB"), in(passing)))
	c.runs(t, operation, 2)
	c.process("n6").kill()
	c.startAgent("n6", "--memory", "100GiB", "--tags", passing).says(t, "msg=registered")
	c.runs(t, operation, 2)
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 2 || p.GetFailed() != 0 || p.GetAborted() != 0 {
		t.Errorf("progress %v", p)
	}
	witnessed(t, dir)
}

// badAgents are refused by themselves, before they bother the cluster.
func badAgents(t *testing.T, c *cluster) {
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	operation := c.start(t, one(small(3, "run", dir, release)))
	before := c.runs(t, operation, 3)
	second := c.launch("second n1", c.launcher, c.agentFlags("n1", "--data", c.data("second n1"))...)
	second.says(t, "in use by another connected agent")
	for name, test := range map[string]struct {
		more     []string
		wantCode int
		want     []string
	}{
		"data folder in use":    {nil, 13, []string{c.data("n1"), "in use by another agent"}},
		"no slots":              {[]string{"--user-slots", "0"}, 2, []string{"--user-slots 0"}},
		"no cores":              {[]string{"--cpu", "0"}, 2, []string{"--cpu 0"}},
		"no memory":             {[]string{"--memory", "0"}, 2, []string{"--memory 0"}},
		"negative cores":        {[]string{"--cpu", "-1"}, 2, []string{"--cpu", "negative"}},
		"negative memory":       {[]string{"--memory", "-1GiB"}, 2, []string{"memory"}},
		"memory without a unit": {[]string{"--memory", "lots"}, 2, []string{"--memory", "lots"}},
		"another's certificate": {[]string{"--credentials", c.certs("agent-" + c.node("n2"))}, 2, []string{c.node("n2"), c.node("n1"), "right folder or name"}},
		"a client's":            {[]string{"--credentials", c.certs("user-ann")}, 2, []string{`user "ann"`}},
		"a replica's":           {[]string{"--credentials", c.certs("replica-r1")}, 2, []string{`replica "r1"`}},
		"metrics port in use":   {[]string{"--data", c.data("other"), "--metrics-listen", c.addresses["r1"], "--metrics-insecure"}, 1, []string{c.addresses["r1"], "address already in use"}},
		"no replicas":           {[]string{"--replicas", "nonsense"}, 2, []string{"--replicas"}},
		"no job proxy":          {[]string{"--jobproxy", "/no/such"}, 2, []string{"/no/such"}},
		"a missing config":      {[]string{"--config", "/no/such"}, 2, []string{"/no/such"}},
		"an unknown flag":       {[]string{"--colour", "red"}, 2, []string{"--colour"}},
	} {
		t.Run(name, func(t *testing.T) {
			printed, code := weir(t, c.agentFlags("n1", test.more...)...)
			if code != test.wantCode {
				t.Errorf("exit code %d, want %d", code, test.wantCode)
			}
			wantIn(t, "the reason", reason(t, printed), test.want)
		})
	}
	if err := second.stop(); err != nil || strings.Contains(second.printed(), "msg=registered") {
		t.Errorf("the second agent: %v\n%s", err, second.printed())
	}
	for _, job := range c.runs(t, operation, 3) {
		if !slices.ContainsFunc(before, func(b *apipb.Job) bool { return b.GetId() == job.GetId() && b.GetPid() == job.GetPid() }) {
			t.Errorf("job %v was disturbed", job)
		}
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.ends(t, operation, "completed")
	if !c.lives("n1") {
		t.Error("n1 has ended")
	}
}

// strangers are refused by the replicas, and say why.
func strangers(t *testing.T, c *cluster) {
	other := filepath.Join(c.dir, "other certs")
	var mine apipb.StatusResponse
	c.ask(t, "ClusterService/Status", object{}, &mine)
	if printed, code := weir(t, "tls", "init", "--dir", other, "--cluster-id", mine.GetClusterId(), "--agent", c.node("n7"), "--replica", "r1"); code != 0 {
		t.Fatal(printed)
	}
	foreign := c.startAgent("n7", "--credentials", filepath.Join(other, "agent-"+c.node("n7")))
	foreign.says(t, "certificate")
	plain := c.launch("n8", c.launcher, "agent", "--name", c.node("n8"), "--replicas", c.peers(), "--data", c.data("n8"), "--insecure-plaintext")
	plain.says(t, "INSECURE")
	plain.says(t, "no stream to peer")
	var nodes apipb.ListNodesResponse
	c.ask(t, "NodeService/List", object{}, &nodes)
	for _, node := range nodes.GetNodes() {
		if id := node.GetId(); id == c.node("n7") || id == c.node("n8") {
			t.Errorf("%s was let in", id)
		}
	}
	for _, p := range []*process{foreign, plain} {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if strings.Contains(p.printed(), "msg=registered") {
			t.Errorf("%s registered", p.name)
		}
	}
}

// wrongProtocol speaks what is for replicas alone with the certificates of others.
func wrongProtocol(t *testing.T, c *cluster) {
	for _, folder := range []string{"agent-" + c.node("n1"), "user-ann", "operator-admin", ""} {
		for _, protocol := range []string{"weir-raft/1", "weir-gossip/1"} {
			t.Run(fmt.Sprintf("%s %s", protocol, folder), func(t *testing.T) {
				config := c.anonymous(t)
				config.NextProtos = []string{protocol}
				if folder != "" {
					certificate, err := tls.LoadX509KeyPair(c.certs(folder, "tls.crt"), c.certs(folder, "tls.key"))
					if err != nil {
						t.Fatal(err)
					}
					config.Certificates = []tls.Certificate{certificate}
				}
				conn, err := tls.Dial("tcp", c.addresses["r1"], config)
				if err != nil {
					return
				}
				defer conn.Close()
				// With TLS 1.3 the refusal comes with the first answer.
				if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write([]byte("\x01weir")); err != nil {
					return
				}
				if n, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("%d bytes were answered", n)
				}
			})
		}
	}
}
