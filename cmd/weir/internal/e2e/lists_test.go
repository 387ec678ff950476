package e2e

import "testing"

// TestListOfTodaysMembers has a replica sleep through changes of the members: its log
// names those of before, its new list names those of today, and it is let in.
func TestListOfTodaysMembers(t *testing.T) {
	c := newCluster(t, here)
	for _, name := range replicaNames {
		c.process(name).says(t, "ready")
	}
	operator := c.operator(t)
	for _, name := range replicaNames {
		c.hasBegun(t, name)
	}
	p := c.newReplica(t, "r4")
	p.says(t, "waiting to be added: run weir cluster add r4")
	if err := c.process("r3").stop(); err != nil {
		t.Fatal(err)
	}
	c.add(t, operator, "r4")
	c.role(t, operator, "r4", "voter")
	p.says(t, "ready")
	c.remove(t, operator, "r2")
	if code := c.process("r2").exit(t); code != 12 {
		t.Errorf("r2 ended with exit code %d after it was removed, want 12", code)
	}
	today := "r1=" + c.addresses["r1"] + ",r3=" + c.addresses["r3"] + ",r4=" + c.addresses["r4"]
	c.launch("r3", c.launcher, append([]string{
		"server", "--id", "r3", "--listen", c.addresses["r3"], "--peers", today, "--data", c.data("r3"), "--credentials", c.certs("replica-r3"),
	}, unhurried()...)...).says(t, "ready")
	c.role(t, operator, "r3", "voter")
}
