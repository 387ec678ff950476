package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/messages/apipb"
)

// operator returns a client that knows the first replicas.
func (c *cluster) operator(t *testing.T) *client.Client {
	t.Helper()
	settings := client.Settings{Credentials: c.certs("operator-admin")}
	for _, name := range replicaNames {
		settings.Addresses = append(settings.Addresses, c.addresses[name])
	}
	cfg, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Deadline = patience
	made, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

// newReplica starts a replica that is in nobody's list.
func (c *cluster) newReplica(t *testing.T, name string) *process {
	t.Helper()
	if printed, code := weir(t, "tls", "issue", "--dir", c.certs(), "--role", "replica", "--name", name, "--hosts", "localhost,"+c.host); code != 0 {
		t.Fatalf("tls issue: exit code %d\n%s", code, printed)
	}
	c.addresses[name] = net.JoinHostPort(c.host, strconv.Itoa(freePorts(t, c.host, 1)[0]))
	return c.restartNew(name)
}

func (c *cluster) restartNew(name string) *process {
	return c.launch(name, c.launcher, append([]string{
		"server", "--id", name, "--listen", c.addresses[name], "--advertise", c.addresses[name],
		"--join", c.peers(), "--data", c.data(name), "--credentials", c.certs("replica-" + name),
	}, unhurried()...)...)
}

// role waits until a replica has a role.
func (c *cluster) role(t *testing.T, operator *client.Client, name, want string) {
	t.Helper()
	until(t, fmt.Sprintf("%s is %q", name, want), func() string {
		members, err := operator.Members(t.Context())
		if err != nil {
			return err.Error()
		}
		i := slices.IndexFunc(members, func(m *apipb.Member) bool { return m.GetId() == name })
		got := ""
		if i >= 0 {
			got = members[i].GetSuffrage()
		}
		if got != want {
			return fmt.Sprintf("it is %q", got)
		}
		return ""
	})
}

// add makes a replica a member, once others can be reached that are needed for it.
func (c *cluster) add(t *testing.T, operator *client.Client, name string) {
	t.Helper()
	until(t, name+" is added", func() string {
		if err := operator.AddReplica(t.Context(), name, c.addresses[name]); err != nil {
			return err.Error()
		}
		return ""
	})
}

// remove ends a replica's membership, once enough others live: one that waits for a
// processor is taken for dead for a moment.
func (c *cluster) remove(t *testing.T, operator *client.Client, name string) {
	t.Helper()
	until(t, name+" is removed", func() string {
		if err := operator.RemoveReplica(t.Context(), name, false); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestMembersComeAndGo makes five replicas of three and three of five while clients
// start operations and agents run them: no request fails, nothing is lost, no job is
// aborted.
func TestMembersComeAndGo(t *testing.T) {
	agents := []string{"n1", "n2", "n3"}
	c := newCluster(t, here, agents...)
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
	}
	for _, agent := range agents {
		c.startAgent(agent)
	}
	operator := c.operator(t)
	c.ready(t, len(agents))
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	held := c.start(t, one(small(6, "run", dir, release)))
	before := map[string]int64{}
	for _, job := range c.runs(t, held, 6) {
		before[job.GetId()] = job.GetPid()
	}

	stop := submitAlways(t, operator)
	for _, name := range []string{"r4", "r5"} {
		p := c.newReplica(t, name)
		p.says(t, "waiting to be added: run weir cluster add "+name)
		c.add(t, operator, name)
		c.role(t, operator, name, "voter")
		p.says(t, "ready")
	}
	for _, name := range replicaNames {
		if err := c.process(name).stop(); err != nil {
			t.Fatal(err)
		}
		c.startReplica(name).says(t, "ready")
		c.role(t, operator, name, "voter")
	}
	for _, name := range []string{"r5", "r4"} {
		c.remove(t, operator, name)
		if code := c.process(name).exit(t); code != 12 {
			t.Errorf("%s ended with exit code %d after it was removed, want 12", name, code)
		}
		c.process(name).says(t, "removed from the cluster")
	}
	started := stop()
	listed := map[string]bool{}
	for after := ""; ; {
		page, err := operator.ListOperations(t.Context(), &apipb.ListOperationsRequest{Limit: 1000, After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range page.GetOperations() {
			listed[op.GetId()] = true
			after = op.GetId()
		}
		if !page.GetIncomplete() {
			break
		}
	}
	for _, id := range started {
		if !listed[id] {
			t.Errorf("operation %s was started and is lost", id)
		}
	}
	if len(started) == 0 {
		t.Error("nothing was started")
	}
	t.Logf("%d operations were started meanwhile", len(started))
	for _, job := range c.runs(t, held, 6) {
		if pid := before[job.GetId()]; pid != job.GetPid() {
			t.Errorf("job %s has pid %d, was %d", job.GetId(), job.GetPid(), pid)
		}
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(started, held) {
		if p := c.ends(t, id, "completed").GetProgress(); p.GetAborted() != 0 || p.GetFailed() != 0 {
			t.Errorf("progress of %s: %v, want no job aborted or failed", id, p)
		}
	}
	witnessed(t, dir)
}

// TestAllOthersReplaced (T6) has a replica down while the two others are replaced: it does not know the
// leader, and the leader is not among the members in its log. It is let back in without anybody's help.
func TestAllOthersReplaced(t *testing.T) {
	c := newCluster(t, here)
	operator := c.operator(t)
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
		c.hasBegun(t, name)
	}
	// Two of three are enough to add others.
	if err := c.process("r1").stop(); err != nil {
		t.Fatal(err)
	}
	settings := client.Settings{Credentials: c.certs("operator-admin")}
	for _, name := range []string{"r4", "r5"} {
		c.newReplica(t, name)
		settings.Addresses = append(settings.Addresses, c.addresses[name])
		c.add(t, operator, name)
		c.role(t, operator, name, "voter")
	}
	cfg, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Deadline = patience
	if operator, err = client.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(operator.Close)
	for _, name := range []string{"r2", "r3"} {
		// r1 is down, but its vote counts: four of five, then three of four.
		until(t, name+" is removed", func() string {
			if err := operator.RemoveReplica(t.Context(), name, true); err != nil {
				return err.Error()
			}
			return ""
		})
		c.process(name).exit(t)
	}
	again := c.startReplica("r1")
	again.says(t, "ready")
	c.role(t, operator, "r1", "voter")
}

// submitAlways starts operations one after the other until it is stopped.
func submitAlways(t *testing.T, operator *client.Client) (stop func() []string) {
	const room = 5000
	if _, err := operator.CreatePool(t.Context(), &apipb.Pool{Name: "load", Options: options(t, object{"max_operation_count": room, "max_running_operation_count": room})}); err != nil {
		t.Fatal(err)
	}
	spec, err := structpb.NewStruct(map[string]any{"pool": "load", "tasks": map[string]any{"t": map[string]any{"job_count": 1, "command": []any{"true"}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	// One after the other, so many that some meet each change.
	pace := time.NewTicker(50 * time.Millisecond)
	var submitting sync.WaitGroup
	var started []string
	submitting.Go(func() {
		for ctx.Err() == nil {
			<-pace.C
			answer, err := operator.StartOperation(context.WithoutCancel(ctx), &apipb.StartRequest{Spec: spec, MutationId: uuid.NewString()})
			if err != nil {
				t.Errorf("a request failed after the client's own tries: %v", err)
				return
			}
			started = append(started, answer.GetOperationId())
		}
	})
	return func() []string {
		cancel()
		submitting.Wait()
		pace.Stop()
		return started
	}
}

// hasBegun waits until a replica has noted that the cluster has begun.
func (c *cluster) hasBegun(t *testing.T, name string) {
	t.Helper()
	until(t, name+" has noted that the cluster has begun", func() string {
		data, err := os.ReadFile(filepath.Join(c.data(name), "raft", "replica.json"))
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(data), `"voter":true`) {
			return string(data)
		}
		return ""
	})
}

// TestFoldersOfReplicas wipes one, damages one, and makes a new cluster of a backup.
func TestFoldersOfReplicas(t *testing.T) {
	c := newCluster(t, here)
	operator := c.operator(t)
	c.leader(t)
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
		c.role(t, operator, name, "voter")
	}
	held := c.start(t, one(small(1, "run", c.folder(t), "1s"), object{}))
	for _, name := range replicaNames {
		c.hasBegun(t, name)
	}

	c.process("r1").kill()
	if err := os.RemoveAll(c.data("r1")); err != nil {
		t.Fatal(err)
	}
	wiped := c.startReplica("r1")
	wiped.says(t, "starting without a log and without a vote")
	wiped.says(t, "ready")
	c.role(t, operator, "r1", "voter")

	c.process("r1").kill()
	log := filepath.Join(c.data("r1"), "raft", "replica.json")
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(log, data, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := c.startReplica("r1")
	if code := damaged.exit(t); code != 11 {
		t.Errorf("a damaged folder: exit code %d, want 11\n%s", code, damaged.printed())
	}
	damaged.says(t, "move the folder away")

	file := filepath.Join(c.dir, "backup")
	// Two replicas are left: while one waits for a processor, none leads.
	printed, code := weir(t, "cluster", "backup", "-f", file, "--addresses", c.addresses["r2"], "--credentials", c.certs("operator-admin"),
		"--timeout", (patience - answerTime).String())
	if code != 0 {
		t.Fatalf("backup: exit code %d\n%s", code, printed)
	}
	for _, name := range replicaNames {
		c.process(name).kill()
	}
	if err := os.RemoveAll(c.data("r1")); err != nil {
		t.Fatal(err)
	}
	printed, code = weir(t, "cluster", "restore", "-f", file, "--data", c.data("r1"), "--id", "r1", "--address", c.addresses["r1"], "--credentials", c.certs("replica-r1"))
	if code != 0 {
		t.Fatalf("restore: exit code %d\n%s", code, printed)
	}
	c.launch("r1", c.launcher, append([]string{
		"server", "--id", "r1", "--listen", c.addresses["r1"], "--peers", "r1=" + c.addresses["r1"], "--data", c.data("r1"), "--credentials", c.certs("replica-r1"),
	}, unhurried()...)...).says(t, "ready")
	if op, err := operator.GetOperation(t.Context(), held); err != nil || op.GetId() != held {
		t.Errorf("the operation of the backup: %v, %v", op, err)
	}
}
