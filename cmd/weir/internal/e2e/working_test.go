package e2e

import "testing"

// TestWorkingCluster is all that users do with a cluster that is well. Its parts share
// the cluster and run at once.
func TestWorkingCluster(t *testing.T) {
	c := newCluster(t, "127.0.0.1", "n1", "n2", "n3", "n4", "n5")
	// Shares of GPUs are looked at by one part, which has them alone.
	for _, agent := range []string{"n1", "n2", "n3"} {
		c.startAgent(agent, "--gpu", "8")
	}
	c.ready(t, 3)
	for name, part := range map[string]func(*testing.T, *cluster){
		"start and read": startAndRead,
		"bad requests":   badRequests,
		"wrong callers":  wrongCallers,
		"pages":          pages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, c)
		})
	}
}
