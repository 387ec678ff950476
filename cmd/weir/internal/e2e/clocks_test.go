package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/messages/apipb"
)

// wrongClocks has the replicas of a cluster read their wall clocks wrong: they are built with the
// bugs that are planted for tests, one of which adds what a file says.
type wrongClocks struct{ dir string }

// plantClocks makes the program of such replicas, and has the cluster start it.
func plantClocks(t *testing.T, c *cluster) wrongClocks {
	t.Helper()
	return wrongClocks{plant(t, c, "WEIR_PLANTED_CLOCK", "clock-")}
}

// plant has the cluster start replicas that are built with the bugs that are planted for tests. A variable
// names a file to each: in the folder that is returned, with this prefix before the replica's name.
func plant(t *testing.T, c *cluster, variable, prefix string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	planted := filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", "plantedbugs", "-o", planted, "weir/cmd/weir")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	// Its third argument is the name of the process: server --id r1.
	script := fmt.Sprintf("#!/bin/sh\nexport %s=%s/%s$3\nexec %s \"$@\"\n", variable, dir, prefix, planted)
	c.launcher.program = filepath.Join(dir, "weir.sh")
	if err := os.WriteFile(c.launcher.program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// set sets the wall clock of a replica ahead, at once.
func (w wrongClocks) set(t *testing.T, replica, ahead string) {
	t.Helper()
	next := filepath.Join(w.dir, "next")
	if err := os.WriteFile(next, []byte(ahead), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(w.dir, "clock-"+replica)); err != nil {
		t.Fatal(err)
	}
}

// saysOfClock waits until a replica says, or no longer says, that its clock is wrong.
func (c *cluster) saysOfClock(t *testing.T, replica, want string) {
	t.Helper()
	until(t, fmt.Sprintf("%s says %q of its clock", replica, want), func() string {
		st, err := c.status(t.Context(), replica)
		if err != nil {
			return err.Error()
		}
		said := ""
		for _, problem := range st.GetProblems() {
			if strings.HasPrefix(problem, "clock of ") {
				said = problem
			}
		}
		if said == "" && want == "" || want != "" && strings.HasPrefix(said, want) {
			return ""
		}
		return "it says " + said
	})
}

// TestClocks (T7) has one replica start 30 days ahead, and the leader jump by an hour: volumes and
// time limits are as on a good clock.
func TestClocks(t *testing.T) {
	c := prepareCluster(t, here, "n1")
	clocks := plantClocks(t, c)
	clocks.set(t, "r2", "720h")
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	c.startAgent("n1", "--jobproxy", program("weir-jobproxy"))
	c.ready(t, 1)
	c.saysOfClock(t, "r2", "clock of r2 is 30d ahead of the clocks of a majority of the replicas")

	// An agent of 32 slots and 16 cores: a flow of 4 cores is one of 8 slots.
	began := time.Now()
	c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"integral_guarantees/pool_capacity_saturation_period": "24h"}}, &apipb.SetTreeResponse{})
	c.pool(t, "default", "saver", object{"integral_guarantees": object{"guarantee_type": "burst", "resource_flow": object{"cpu": 4}, "burst_guarantee_resources": object{"cpu": 8}}})
	limited := c.start(t, one(small(1, "run", c.folder(t), "5m"), object{"time_limit": "30m"}))
	c.runs(t, limited, 1)
	volume := func(story string, least float64) float64 {
		var slots float64
		until(t, story+": the volume grows", func() string {
			var answer apipb.WhatIfResponse
			c.ask(t, "TreeService/WhatIf", object{"tree": "default"}, &answer)
			for _, p := range answer.GetBefore().GetShares() {
				if p.GetName() == "saver" {
					slots = p.GetVolume() * float64(answer.GetBefore().GetResources().GetUserSlots())
				}
			}
			if slots <= least {
				return fmt.Sprint(slots, " slot seconds")
			}
			return ""
		})
		passed := time.Since(began)
		t.Logf("%s: %.1f slot seconds after %v", story, slots, passed)
		if most := 8.08 * (passed.Seconds() + 2); slots > most {
			t.Errorf("%s: %v slot seconds are saved after %v, want %v at most", story, slots, passed, most)
		}
		if at := c.get(t, c.start(t, one(small(1, "run", c.folder(t), "10ms")))).GetStartTime().AsTime(); time.Since(at).Abs() > time.Minute {
			t.Errorf("%s: an operation starts at %v, %v off", story, at, time.Since(at))
		}
		return slots
	}
	saved := volume("a replica 30 days ahead", 0)

	// It may be made leader, but is not for long.
	if leader := c.leader(t); leader != "r2" {
		if err := c.call(t.Context(), leader, "ClusterService/Transfer", object{"to": "r2"}, &apipb.TransferResponse{}); err != nil {
			t.Log("transfer to r2: ", err)
		}
	}
	c.leadsNot(t, "r2")
	saved = volume("after it has led", saved+16)

	jumped := c.leader(t)
	clocks.set(t, jumped, "1h")
	c.saysOfClock(t, jumped, "clock of "+jumped+" jumped 1h0m0s")
	// The one of the others that is well leads.
	c.leadsNot(t, "r2", jumped)
	volume("after the leader has jumped by an hour", saved+16)

	if op := c.get(t, limited); op.GetState() != "running" {
		t.Errorf("an operation with a time limit of 30 minutes is %s", op.GetState())
	}
	short := c.start(t, one(small(1, "run", c.folder(t), "5m"), object{"time_limit": "2s"}))
	c.ends(t, short, "failed")
	for _, replica := range []string{"r2", jumped} {
		clocks.set(t, replica, "0s")
		c.saysOfClock(t, replica, "")
	}
	c.abort(t, limited)
}

// leadsNot waits until another replica leads than these.
func (c *cluster) leadsNot(t *testing.T, these ...string) {
	t.Helper()
	until(t, fmt.Sprintf("another leads than %v", these), func() string {
		leader := c.leader(t)
		for _, replica := range these {
			if leader == replica {
				return leader + " leads"
			}
		}
		return ""
	})
}
