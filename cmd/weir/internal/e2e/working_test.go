package e2e

import (
	"testing"

	"weir/messages/apipb"
)

// passing is the tree, and the tag, of agents that come and go.
const passing = "passing"

// TestWorkingCluster is all that users do with a cluster that is well. Its parts share
// the cluster and run at once.
func TestWorkingCluster(t *testing.T) {
	c := prepareCluster(t, here, "n1", "n2", "n3", "n4", "n5", "n6")
	// No replica goes. One that waits for a processor keeps its operations, whose steps
	// are looked at.
	c.more = []string{"--reassign-after", "1m"}
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	// Shares of GPUs are looked at by one part, which has them alone.
	for _, agent := range []string{"n1", "n2", "n3"} {
		c.startAgent(agent, "--gpu", "8", "--tags", "steady")
	}
	c.ready(t, 3)
	// Agents that are killed and stopped have no jobs but those of the parts that do so.
	c.ask(t, "TreeService/Set", object{"tree": "default", "options": object{"nodes_filter": "!" + passing}}, &apipb.SetTreeResponse{})
	c.ask(t, "TreeService/Create", object{"tree": passing, "options": object{"nodes_filter": passing}}, &apipb.CreateTreeResponse{})
	for name, part := range map[string]func(*testing.T, *cluster){
		"start and read": startAndRead,
		"bad requests":   badRequests,
		"wrong callers":  wrongCallers,
		"pages":          pages,

		"failing jobs":        failingJobs,
		"failures in between": failuresInBetween,
		"flooding job":        floodingJob,
		"stubborn jobs":       stubbornJobs,
		"workspaces":          workspaces,

		"whole life":         wholeLife,
		"read everywhere":    readEverywhere,
		"read your writes":   readYourWrites,
		"suspend and resume": suspendAndResume,
		"service jobs":       serviceJobs,
		"retried start":      retriedStart,
		"full pool":          fullPool,
		"weights":            weights,

		"agent dies":     agentDies,
		"agent restarts": agentRestarts,
		"bad agents":     badAgents,
		"strangers":      strangers,
		"wrong protocol": wrongProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, c)
		})
	}
}
