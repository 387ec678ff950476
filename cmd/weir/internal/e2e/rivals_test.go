package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestReplicasThatDoNotFit starts processes that are a replica of the cluster already,
// or have another list of peers than it: they say so and stop, and the cluster goes on.
func TestReplicasThatDoNotFit(t *testing.T) {
	c := newCluster(t, here)
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
	}
	operator := c.operator(t)
	for _, name := range replicaNames {
		c.hasBegun(t, name)
	}
	if err := c.process("r3").stop(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(c.dir, "copied")
	if err := os.CopyFS(copied, os.DirFS(c.data("r3"))); err != nil {
		t.Fatal(err)
	}
	free := func() string { return net.JoinHostPort(c.host, strconv.Itoa(freePorts(t, c.host, 1)[0])) }
	five := c.peers() + ",r4=" + free() + ",r5=" + free()

	t.Run("another list", func(t *testing.T) {
		for name, data := range map[string]string{"with a log": c.data("r3"), "without one": filepath.Join(c.dir, "empty")} {
			t.Run(name, func(t *testing.T) {
				flags := append(c.replicaFlags("r3"), "--data", data)
				flags[slices.Index(flags, "--peers")+1] = five
				printed, code := weir(t, flags...)
				if code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				wantIn(t, "the reason", reason(t, printed), []string{"lists of peers differ", five, "started with " + c.peers()})
			})
		}
	})

	c.startReplica("r3").says(t, "ready")
	for _, name := range replicaNames {
		until(t, name+" knows that r3 lives", func() string {
			status, err := c.status(t.Context(), name)
			if err != nil {
				return err.Error()
			}
			for _, member := range status.GetMembers() {
				if member.GetId() == "r3" && member.GetAlive() && member.GetAddress() == c.addresses["r3"] {
					return ""
				}
			}
			return status.String()
		})
	}
	t.Run("the same replica", func(t *testing.T) {
		for name, data := range map[string]string{"with a copy of the folder": copied, "with an empty folder": filepath.Join(c.dir, "none")} {
			t.Run(name, func(t *testing.T) {
				address := free()
				printed, code := weir(t, append(c.replicaFlags("r3"), "--data", data, "--listen", address, "--advertise", address)...)
				if code != 13 {
					t.Errorf("exit code %d, want 13", code)
				}
				wantIn(t, "the reason", reason(t, printed), []string{"another process is running as this replica", c.addresses["r3"]})
			})
		}
	})
	for _, name := range replicaNames {
		if !c.lives(name) {
			t.Errorf("%s has ended", name)
		}
		c.role(t, operator, name, "voter")
	}
}
