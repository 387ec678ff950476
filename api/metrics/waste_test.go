package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestWaste aborts a job of a pool and one of a pool that goes with its operation: the
// second is counted with all of its kind.
func TestWaste(t *testing.T) {
	f := newReplicaFake()
	index := uint64(100)
	apply := func(after time.Duration, commands ...proto.Message) {
		t.Helper()
		for _, c := range commands {
			index++
			m := c.ProtoReflect()
			if field := m.Descriptor().Fields().ByName("time"); field != nil {
				at := timestamppb.New(time.UnixMilli(1000).Add(after))
				m.Set(field, protoreflect.ValueOfMessage(at.ProtoReflect()))
			}
			if result, _ := f.state.Apply(index, c); result.GetRefusal() != nil {
				t.Fatalf("%T: %s", c, result.GetRefusal().GetMessage())
			}
		}
	}
	size := &statepb.Resources{UserSlots: 1, CpuHundredths: 50, Memory: 1}
	for i, pool := range []string{"default", "anns"} {
		id, begun := fmt.Sprint("op-", i), time.Duration(i)*time.Hour
		apply(begun,
			&commandpb.StartOperation{OperationId: id, User: "ann", Spec: &statepb.OperationSpec{
				Type: "vanilla", Pool: pool, Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 1, Argv: []string{"true"}}},
			}},
			&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "starting", To: "waiting_for_agent"},
			&commandpb.AssignController{Term: 1, Assignments: []*commandpb.ControllerAssignment{{OperationId: id, Replica: "r1", Epoch: 1}}},
			&commandpb.PrepareOperation{OperationId: id, Epoch: 1},
			&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "pending", To: "materializing"},
			&commandpb.DefineTasks{OperationId: id, Epoch: 1, Tasks: []*commandpb.TaskDefinition{{Name: "t", JobCount: 1, JobResources: size}}},
			&commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{{JobId: id, OperationId: id, Task: "t", Node: "n1", NodeIncarnation: 1, Resources: size}}},
		)
		apply(begun+10*time.Second, &commandpb.AbortAllocations{Term: 1, Node: "n1", Reason: "node_offline", JobIds: []string{id}})
	}
	want := `
# HELP weir_wasted_jobs_total Aborted jobs that lost their work, by pool and cause.
# TYPE weir_wasted_jobs_total counter
weir_wasted_jobs_total{cause="node_offline",pool="<ephemeral>",tree="default"} 1
weir_wasted_jobs_total{cause="node_offline",pool="default",tree="default"} 1
`
	registry := f.registry()
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "weir_wasted_jobs_total"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lost := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "weir_wasted_resource_seconds_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			lost[labels["pool"]+" "+labels["resource"]] = m.GetCounter().GetValue()
		}
	}
	if lost["default cpu"] != 5 || len(lost) != 6 {
		t.Errorf("lost %v, want cpu, memory and user_slots of both", lost)
	}
}
