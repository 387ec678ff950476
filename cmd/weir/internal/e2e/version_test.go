package e2e

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/command"
	"weir/raftstore/state"
)

// olderBackup writes a backup of a cluster of version 1, in which a node of weir 0.1.0 is offline.
func olderBackup(t *testing.T, path string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := raftstore.Default()
	cfg.Dir, cfg.ClusterID, cfg.ReplicaID, cfg.Address = t.TempDir(), "older", "r1", listener.Addr().String()
	cfg.InitialPeers = []raftstore.Peer{{ID: cfg.ReplicaID, Address: cfg.Address}}
	cfg.Transport = raftstore.Transport{Listener: listener, Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	cfg.DiskStall = patience
	store, err := raftstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var commands []*commandpb.Command
	for _, msg := range []proto.Message{
		&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "older", Limits: state.WithGrants(state.WithBytes(nil))},
		&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{
			Id: "gone", Incarnation: 1, Version: "0.1.0", Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1 << 30},
		}},
		&commandpb.SetNodeOffline{Term: 1, Node: "gone", Incarnation: 1, Reason: "lease expired"},
	} {
		c, err := command.New(msg)
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, c)
	}
	until(t, "the commands are applied", func() string {
		if _, err := store.Propose(t.Context(), commands...); err != nil {
			return err.Error()
		}
		return ""
	})
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(store.Backup(file), file.Close(), store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// identityOf reads the format that a replica's folder has.
func (c *cluster) formatOf(t *testing.T, name string) uint32 {
	t.Helper()
	id, err := raftstore.ReadIdentity(filepath.Join(c.data(name), "raft"))
	if err != nil {
		t.Fatal(err)
	}
	return id.Format
}

// TestUpgradeFinish (V1, V2): a cluster that is restored from a backup of version 1 keeps that version until the
// upgrade is finished, which names what is in the way; then all replicas have the new one, also after a restart. A
// cluster that is founded has the newest version at once.
func TestUpgradeFinish(t *testing.T) {
	t.Parallel()
	agents := []string{"n1", "n2"}
	c := prepareCluster(t, here, agents...)
	backup := filepath.Join(c.dir, "older.backup")
	olderBackup(t, backup)
	if printed, code := weir(t, "cluster", "restore", "-f", backup, "--data", c.data("r1"), "--id", "r1", "--address", c.addresses["r1"], "--credentials", c.certs("replica-r1")); code != 0 {
		t.Fatalf("restore: exit code %d\n%s", code, printed)
	}
	verb := func(args ...string) (string, int) {
		return weir(t, append(append([]string{"cluster", "upgrade"}, args...), "--addresses", c.addresses["r1"], "--credentials", c.certs("operator-admin"))...)
	}
	says := func(code int, want []string, args ...string) {
		t.Helper()
		printed, got := verb(args...)
		for _, text := range want {
			if !strings.Contains(printed, text) {
				t.Errorf("%v: %q is missing in\n%s", args, text, printed)
			}
		}
		if got != code {
			t.Errorf("%v: exit code %d, want %d\n%s", args, got, code, printed)
		}
	}
	replica := func(name string, flags ...string) *process {
		return c.launch(name, c.launcher, slices.Concat([]string{
			"server", "--id", name, "--listen", c.addresses[name], "--advertise", c.addresses[name], "--data", c.data(name), "--credentials", c.certs("replica-" + name),
		}, unhurried(), flags)...)
	}
	first := "r1=" + c.addresses["r1"]
	replica("r1", "--peers", first).says(t, "ready")
	operator := c.operator(t)
	for _, name := range []string{"r2", "r3"} {
		p := replica(name, "--join", first)
		c.add(t, operator, name)
		c.role(t, operator, name, "voter")
		p.says(t, "ready")
	}
	for _, agent := range agents {
		c.startAgent(agent)
	}
	c.ready(t, len(agents))
	for _, name := range replicaNames {
		if got := c.formatOf(t, name); got != 1 {
			t.Errorf("%s has format %d before the upgrade is finished", name, got)
		}
	}

	says(0, []string{"cluster version 1; in the way of version 2:", "agent gone: offline, and its last program was too old", "r1", "r2", "r3"}, "status")
	says(0, []string{"weir cluster upgrade finish", "gone (0.1.0), offline"}, "plan")
	says(5, []string{"agent gone (weir 0.1.0): offline", "--without-offline-agents", "upgrade_blocked"}, "finish", "--yes")
	says(2, []string{"the version stays", "give --yes"}, "finish", "--without-offline-agents")
	until(t, "the status says that the upgrade is not finished", func() string {
		status, err := operator.Status(t.Context())
		if problems := strings.Join(status.GetProblems(), "; "); err != nil || status.GetClusterVersion() != 1 || !strings.Contains(problems, "the upgrade to cluster version 2 is not finished") {
			return problems
		}
		return ""
	})
	says(0, []string{"the cluster has version 2: there is no way back to programs older than weir 0.2.0"}, "finish", "--without-offline-agents", "--yes")
	says(0, []string{"the cluster has version 2 already: nothing to do"}, "finish")
	for _, name := range replicaNames {
		until(t, name+" notes the version in its folder", func() string {
			if c.formatOf(t, name) != 2 {
				return "it has not"
			}
			return ""
		})
	}
	until(t, "the audit log tells", func() string {
		printed, _ := weir(t, "audit", "--addresses", c.addresses["r1"], "--credentials", c.certs("operator-admin"))
		if !strings.Contains(printed, "raised the version of the cluster to 2, without agents that are offline") {
			return printed
		}
		return ""
	})

	// The version is in what replicas keep.
	if err := c.process("r2").stop(); err != nil {
		t.Fatal(err)
	}
	replica("r2", "--join", first).says(t, "ready")
	until(t, "all say the version", func() string {
		for _, answer := range operator.StatusAll(t.Context()) {
			if answer.Err != nil || answer.Status.GetClusterVersion() != 2 {
				return answer.Address + " does not"
			}
		}
		return ""
	})
	until(t, "nothing is mixed", func() string {
		status, err := operator.Status(t.Context())
		if err != nil || status.GetMixedSince() != nil {
			return "it is, or nobody answers"
		}
		return ""
	})
	dir := c.folder(t)
	c.counted(t, c.start(t, one(small(4, "run", dir, "10ms"))), dir, 4)
}
