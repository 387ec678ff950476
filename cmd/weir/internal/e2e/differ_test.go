package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"weir/messages/apipb"
)

// agreed waits until every replica has compared its state with that of the others at a point after what all
// have applied now.
func (c *cluster) agreed(t *testing.T) {
	t.Helper()
	var applied uint64
	begin := c.start(t, one(small(1, "run", c.folder(t), "10ms")))
	c.ends(t, begin, "completed")
	until(t, "all replicas agree", func() string {
		for _, name := range replicaNames {
			st, err := c.status(t.Context(), name)
			if err != nil {
				return err.Error()
			}
			if applied == 0 {
				applied = st.GetAppliedIndex()
			}
			if st.GetCheckedIndex() < applied || st.GetStateHash() == nil {
				return fmt.Sprintf("%s has compared its state at index %d, but %d is applied", name, st.GetCheckedIndex(), applied)
			}
		}
		return ""
	})
}

// TestReplicaThatDiffers has a follower, and then the leader, come to another state than the others: it is found
// within one period, stops, does not start again by itself, and is like the others once it is rebuilt. Jobs run on.
func TestReplicaThatDiffers(t *testing.T) {
	const period = 2 * time.Second
	c := prepareCluster(t, here, "n1")
	c.more = []string{"--check-period", period.String()}
	files := plant(t, c, "WEIR_PLANTED_DRIFT", "drift-")
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.startAgent("n1", "--jobproxy", program("weir-jobproxy"))
	c.ready(t, 1)
	c.agreed(t)
	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	operation := c.start(t, one(small(2, "run", dir, release)))
	before := c.runs(t, operation, 2)
	for who, pick := range map[string]func() string{
		"a follower": func() string {
			leader := c.leader(t)
			return replicaNames[slices.IndexFunc(replicaNames, func(name string) bool { return name != leader })]
		},
		"the leader": func() string { return c.leader(t) },
	} {
		t.Run(who, func(t *testing.T) {
			wrong := pick()
			file := filepath.Join(files, "drift-"+wrong)
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			c.ends(t, c.start(t, one(small(1, "run", c.folder(t), "10ms"))), "completed")
			const differs = 15
			if code := c.process(wrong).exit(t); code != differs {
				t.Fatalf("%s ended with exit code %d, want %d", wrong, code, differs)
			}
			t.Logf("%s, %s, stopped %v after its state differed; the period is %v", who, wrong, time.Since(began), period)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			c.leadsNot(t, wrong)
			again := c.startReplica(wrong)
			if code := again.exit(t); code != differs {
				t.Errorf("started again it ends with exit code %d, want %d", code, differs)
			}
			again.says(t, "start the replica with --rebuild")
			c.launch(wrong, c.launcher, append(c.replicaFlags(wrong), "--rebuild")...).says(t, "ready: replica "+wrong)
			until(t, wrong+" votes again", func() string {
				st, err := c.status(t.Context(), c.leader(t))
				if err != nil {
					return err.Error()
				}
				for _, m := range st.GetMembers() {
					if m.GetId() == wrong && m.GetSuffrage() != "voter" {
						return "it is a " + m.GetSuffrage()
					}
				}
				return ""
			})
			kept, err := filepath.Glob(filepath.Join(c.data(wrong), "raft.aside-*", "diverged-*.snapshot"))
			if err != nil || len(kept) == 0 {
				t.Errorf("states kept: %v, %v", kept, err)
			}
			c.agreed(t)
		})
	}
	after := c.runs(t, operation, 2)
	same := func(a, b *apipb.Job) bool { return a.GetId() == b.GetId() && a.GetPid() == b.GetPid() }
	if !slices.EqualFunc(before, after, same) {
		t.Errorf("jobs were %v, are %v", before, after)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.ends(t, operation, "completed")
}
