package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestMemory has a map operation with a job that completed, one that runs and one that
// waits.
func TestMemory(t *testing.T) {
	f := newReplicaFake()
	held := &statepb.Resources{UserSlots: 1, CpuHundredths: 50, Memory: 3 << 20}
	grant := func(job string) *commandpb.Grant {
		return &commandpb.Grant{JobId: job, OperationId: "op", Task: "mapper", Node: "n1", NodeIncarnation: 2, Resources: held}
	}
	slices := func(file int32) *statepb.Slices {
		return &statepb.Slices{Slices: []*statepb.Slice{{File: file, End: 100}}}
	}
	for i, command := range []proto.Message{
		&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n1", Incarnation: 2, Resources: &statepb.Resources{UserSlots: 2, CpuHundredths: 100, Memory: 8 << 20}}},
		&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: &statepb.OperationSpec{
			Type: "map", Pool: "default", Map: &statepb.MapSpec{InputPaths: []string{"/data/*"}, OutputPath: "/out", Format: "lines"},
			Tasks: []*statepb.TaskSpec{{Name: "mapper", Argv: []string{"cat"}, MemoryLimit: 5 << 20}},
		}},
		&commandpb.AdvanceOperation{OperationId: "op", Term: 1, From: "starting", To: "waiting_for_agent"},
		&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: "op", Replica: "r1", Epoch: 1}}},
		&commandpb.PrepareOperation{OperationId: "op", Epoch: 1, Input: &statepb.Input{
			Files: []*statepb.InputFile{{Path: "/data/a", Size: 100}, {Path: "/data/b", Size: 100}, {Path: "/data/c", Size: 100}}, Bytes: 300,
		}},
		&commandpb.AdvanceOperation{OperationId: "op", Term: 1, From: "pending", To: "materializing"},
		&commandpb.DefineTasks{OperationId: "op", Epoch: 1, Tasks: []*commandpb.TaskDefinition{{
			Name: "mapper", JobCount: 3, JobResources: held, Slices: []*statepb.Slices{slices(0), slices(1), slices(2)},
		}}},
		&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{grant("a"), grant("b")}},
		&commandpb.FinishJobs{OperationId: "op", Epoch: 1, Jobs: []*statepb.FinishedJob{{
			JobId: "a", State: "completed", Sample: &statepb.MemorySample{User: 0.5}, Input: &statepb.JobInput{Processed: slices(0).GetSlices(), Rows: 1, Bytes: 100},
		}}},
	} {
		if result, _ := f.state.Apply(uint64(100+i), command); result.GetRefusal() != nil {
			t.Fatalf("%T: %s", command, result.GetRefusal().GetMessage())
		}
	}
	const want = `
# HELP weir_map_input_bytes Input of map operations in progress, by progress: read, or waiting.
# TYPE weir_map_input_bytes gauge
weir_map_input_bytes{state="read"} 100
weir_map_input_bytes{state="waiting"} 200
# HELP weir_memory_limits_bytes Sum of memory_limit over jobs that hold resources. The difference to memory_reserved_bytes is what reserves save.
# TYPE weir_memory_limits_bytes gauge
weir_memory_limits_bytes 5.24288e+06
# HELP weir_memory_reserved_bytes Memory reserved for jobs, by pool tree.
# TYPE weir_memory_reserved_bytes gauge
weir_memory_reserved_bytes{tree="default"} 3.145728e+06
# HELP weir_memory_samples_waiting Memory samples that controllers have not added to their digests yet.
# TYPE weir_memory_samples_waiting gauge
weir_memory_samples_waiting 1
`
	err := testutil.GatherAndCompare(f.registry(), strings.NewReader(want),
		"weir_map_input_bytes", "weir_memory_limits_bytes", "weir_memory_reserved_bytes", "weir_memory_samples_waiting")
	if err != nil {
		t.Error(err)
	}
}
