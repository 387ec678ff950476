package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"weir/messages/apipb"
)

// TestReplicas is what happens to replicas: its parts follow each other in the life of
// one cluster.
func TestReplicas(t *testing.T) {
	c := prepareCluster(t, here, "n1")
	// Jobs outlive the time that replicas need to start, also on a busy machine.
	c.more = []string{"--lease", "1m"}
	for _, part := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"one after the other", startOneByOne},
		{"started twice", startedTwice},
		{"transfer", transfer},
		{"drain", drain},
		{"controller dies", controllerDies},
		{"no majority", noMajority},
		{"all stop and start", allAnew},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(t, c) }) {
			t.Fatalf("%s went wrong: the rest is skipped", part.name)
		}
	}
}

// startOneByOne starts replicas in an order that nobody planned.
func startOneByOne(t *testing.T, c *cluster) {
	c.startAgent("n1")
	c.startReplica("r3").says(t, "bootstrap waiting")
	c.startReplica("r2")
	c.leader(t)
	c.startReplica("r1").says(t, "ready: replica r1")
	until(t, "all are members", func() string {
		st, err := c.status(t.Context(), "r1")
		if err != nil {
			return err.Error()
		}
		for _, member := range st.GetMembers() {
			if !member.GetAlive() || member.GetSuffrage() != "voter" {
				return protojson.Format(st)
			}
		}
		if len(st.GetMembers()) != 3 || st.GetLeader() != c.leader(t) || !st.GetQuorum() {
			return protojson.Format(st)
		}
		return ""
	})
	c.ready(t, 1)
}

// startedTwice refuses a second process with the port, the folder or the name of a
// replica.
func startedTwice(t *testing.T, c *cluster) {
	other := freePorts(t, c.host, 1)[0]
	elsewhere := net.JoinHostPort(c.host, strconv.Itoa(other))
	busy, err := net.ListenPacket("udp", elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	free := net.JoinHostPort(c.host, strconv.Itoa(freePorts(t, c.host, 1)[0]))
	type attempt struct {
		arguments []string
		wantCode  int
		want      []string
	}
	tests := map[string]attempt{
		"port in use":           {append(c.replicaFlags("r1"), "--data", c.data("other")), 1, []string{c.addresses["r1"], "address already in use"}},
		"UDP port in use":       {append(c.replicaFlags("r1"), "--data", c.data("other"), "--listen", elsewhere), 1, []string{elsewhere, "address already in use"}},
		"data folder in use":    {append(c.replicaFlags("r1"), "--listen", free), 10, []string{c.data("r1"), "in use by another process"}},
		"another's certificate": {append(c.replicaFlags("r1"), "--credentials", c.certs("replica-r2")), 2, []string{`replica "r2"`, `replica "r1"`}},
		"an agent's":            {append(c.replicaFlags("r1"), "--credentials", c.certs("agent-"+c.node("n1"))), 2, []string{"agent", `replica "r1"`}},
		"no certificate":        {append(c.replicaFlags("r1"), "--credentials", ""), 2, []string{"--credentials is needed"}},
		"missing certificate":   {append(c.replicaFlags("r1"), "--credentials", "/no/such"), 1, []string{"/no/such"}},
		"peers that are none":   {append(c.replicaFlags("r1"), "--peers", "r1"), 2, []string{"--peers"}},
		"unknown timing":        {append(c.replicaFlags("r1"), "--listen", free, "--timing", "slow"), 2, []string{"--timing", "slow"}},
		"short lease":           {append(c.replicaFlags("r1"), "--listen", free, "--data", c.data("other"), "--lease", "1s"), 2, []string{"lease"}},
	}
	if os.Geteuid() == 0 {
		tests["users write anywhere"] = attempt{append(c.replicaFlags("r1"), "--data-root", "/"), 2, []string{"--data-root /: contains", "name a folder that is for nothing else"}}
		tests["users write the replica's files"] = attempt{append(c.replicaFlags("r1"), "--data-root", c.data("r1")), 2, []string{"contains " + c.data("r1")}}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			printed, code := weir(t, test.arguments...)
			if code != test.wantCode {
				t.Errorf("exit code %d, want %d", code, test.wantCode)
			}
			wantIn(t, "the reason", reason(t, printed), test.want)
		})
	}
	for _, replica := range replicaNames {
		if !c.lives(replica) {
			t.Errorf("%s has ended", replica)
		}
	}
	c.ready(t, 1)
}

// transfer moves the lead around while a job runs.
func transfer(t *testing.T, c *cluster) {
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	operation := c.start(t, one(small(1, "run", dir, release)))
	before := c.runs(t, operation, 1)[0]
	for _, to := range replicaNames {
		until(t, "leadership moves", func() string {
			var moved apipb.TransferResponse
			if err := c.call(t.Context(), c.leader(t), "ClusterService/Transfer", object{"to": to}, &moved); err != nil {
				return err.Error()
			}
			// On a busy machine it may move on by itself.
			if leader := c.leader(t); moved.GetLeader() != to || leader != to {
				return fmt.Sprintf("it is said to be with %s, and %s leads", moved.GetLeader(), leader)
			}
			return ""
		})
	}
	if after := c.runs(t, operation, 1)[0]; after.GetPid() != before.GetPid() || after.GetId() != before.GetId() {
		t.Errorf("the job was %v, is %v", before, after)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetAborted() != 0 || p.GetFailed() != 0 {
		t.Errorf("progress %v", p)
	}
}

// controllerDies kills the replica that controls an operation; another takes over.
func controllerDies(t *testing.T, c *cluster) {
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	operation := c.start(t, one(small(3, "run", dir, release)))
	before := c.runs(t, operation, 3)
	first := c.get(t, operation)
	c.process(first.GetController()).kill()
	next := c.becomes(t, operation, "assigned to another controller", func(op *apipb.Operation) bool { return op.GetController() != first.GetController() })
	if next.GetControllerEpoch() <= first.GetControllerEpoch() || next.GetState() != "running" {
		t.Errorf("after %v comes %v", first, next)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 3 || p.GetAborted() != 0 || p.GetFailed() != 0 {
		t.Errorf("progress %v", p)
	}
	if cookies := witnessed(t, dir); len(cookies) != 3 || len(before) != 3 {
		t.Errorf("cookies %v", cookies)
	}
	c.startReplica(first.GetController())
	c.leader(t)
}

// noMajority leaves one replica alone: it says so, and goes on when the others are
// back.
func noMajority(t *testing.T, c *cluster) {
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	operation := c.start(t, one(small(1, "run", dir, release)))
	c.runs(t, operation, 1)
	c.process("r1").kill()
	c.process("r3").kill()
	until(t, "r2 knows that it is alone", func() string {
		st, err := c.status(t.Context(), "r2")
		if err != nil {
			return err.Error()
		}
		if st.GetQuorum() || len(st.GetProblems()) == 0 {
			return protojson.Format(st)
		}
		return ""
	})
	// The job ends while nobody can be told.
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("calls", func(t *testing.T) { callsFail(t, c, operation) })
	c.startReplica("r1")
	c.startReplica("r3")
	c.ready(t, 1)
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 1 || p.GetFailed() != 0 {
		t.Errorf("progress %v", p)
	}
	witnessed(t, dir)
}

// callsFail calls a replica that is alone: it answers in time, and says why it cannot.
func callsFail(t *testing.T, c *cluster, operation string) {
	for method, request := range map[string]object{
		"OperationService/Start": {"spec": one(small(1).with("command", []string{"true"}))},
		"OperationService/Get":   {"operation": operation},
		"OperationService/Abort": {"operation": operation},
		"PoolService/Edit":       makePool("late", nil),
		"JobService/List":        {"operation": operation},
	} {
		for _, deadline := range []time.Duration{answerTime + 2*time.Second, time.Minute} {
			t.Run(fmt.Sprint(method, " within ", deadline-answerTime), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				err := c.call(ctx, "r2", method, request, nil)
				refused := refusalOf(err)
				if refused.Code != "unavailable" || !strings.Contains(refused.Message, "leader") && !strings.Contains(refused.Message, "majority") {
					t.Errorf("%v, want unavailable, for want of a leader or majority", err)
				}
			})
		}
	}
}

// allAnew kills all replicas at once. What was acknowledged is there afterwards, the
// jobs that ran have run on, and each is counted once.
func allAnew(t *testing.T, c *cluster) {
	c.ask(t, "PoolService/Edit", makePool("kept", object{"weight": 5}), &apipb.EditTreeResponse{})
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	held := c.start(t, one(small(4, "run", dir, release)))
	before, known := map[string]int64{}, map[string]int{}
	for _, job := range c.runs(t, held, 4) {
		before[job.GetId()], known[job.GetId()] = job.GetPid(), pidInside(t, job.GetPid())
	}
	// Some of these have ended when the replicas die, some run, some wait.
	acknowledged := []string{c.start(t, one(small(2, "run", c.folder(t), "10ms"), object{"pool": "kept", "alias": "*kept"}))}
	for range 20 {
		acknowledged = append(acknowledged, c.start(t, one(small(2, "run", c.folder(t), "500ms"), object{"pool": "kept"})))
	}
	for _, replica := range replicaNames {
		c.process(replica).kill()
	}
	for _, replica := range replicaNames {
		c.startReplica(replica)
	}
	if op := c.ends(t, "*kept", "completed"); op.GetId() != acknowledged[0] {
		t.Errorf("operation %v", op)
	}
	for _, operation := range acknowledged {
		if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 2 || p.GetAborted() != 0 || p.GetFailed() != 0 {
			t.Errorf("progress of %s: %v, want 2 completed and no others", operation, p)
		}
	}
	var pool apipb.GetPoolResponse
	c.ask(t, "PoolService/Get", object{"name": "kept"}, &pool)
	if pool.GetPool().GetEffectiveWeight() != 5 {
		t.Errorf("pool %v", &pool)
	}
	for _, job := range c.runs(t, held, 4) {
		if pid := before[job.GetId()]; pid != job.GetPid() {
			t.Errorf("job %s has pid %d, was %d", job.GetId(), job.GetPid(), pid)
		}
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, held, "completed").GetProgress(); p.GetCompleted() != 4 || p.GetAborted() != 0 || p.GetFailed() != 0 {
		t.Errorf("progress of the jobs that ran on: %v, want 4 completed and no others", p)
	}
	for cookie, lines := range witnessed(t, dir) {
		if len(lines) != 2 || lines[0].pid != known[lines[0].job] || lines[1].what != "end" {
			t.Errorf("%s did not run exactly once: %v", cookie, lines)
		}
	}
}
