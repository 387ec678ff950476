package chaos

import (
	"testing"

	"weir/raftstore/state"
)

// TestSimulatedOperations: all nodes have jobs while as many wait, and each job of an operation may be lost several times
// before the cluster drops the record of one.
func TestSimulatedOperations(t *testing.T) {
	kept := int(state.DefaultLimits().GetFinishedJobsPerOperation())
	for _, nodes := range []int{1, 20, 50, 51, 1000, 10_000} {
		cfg := Config{Simulated: make([]string, nodes)}
		spec, err := cfg.simulatedSpec("m")
		if err != nil {
			t.Fatal(err)
		}
		task := spec.GetFields()["tasks"].GetStructValue().GetFields()["simulated"].GetStructValue()
		jobs := int(task.GetFields()["job_count"].GetNumberValue())
		if all := jobs * simulatedBacklog(nodes); all < 2*nodes || jobs*4 > kept {
			t.Errorf("%d nodes: %d jobs in operations of %d each, of which %d are kept", nodes, all, jobs, kept)
		}
	}
}
