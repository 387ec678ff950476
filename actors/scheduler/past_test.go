package scheduler

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/statistics"
)

// TestPastOf: what a new leader learns from the record of an operation.
func TestPastOf(t *testing.T) {
	began := time.Unix(1_000_000, 0).UTC()
	options, err := structpb.NewStruct(map[string]any{"weight": 3})
	if err != nil {
		t.Fatal(err)
	}
	op := &statepb.Operation{
		Id: "op", User: "ann", StartTime: timestamppb.New(began),
		Spec: &statepb.OperationSpec{Type: "vanilla", Tasks: []*statepb.TaskSpec{{Name: "a", JobCount: 3, Argv: []string{"x"}}, {Name: "b", JobCount: 1, Argv: []string{"y"}}}},
		Tasks: []*statepb.Task{
			{Name: "a", JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100}}, {Name: "b", JobResources: &statepb.Resources{UserSlots: 1, CpuHundredths: 500}},
		},
		Trees: []*statepb.OperationTree{{Tree: string(scheduling.DefaultTree), Pool: "p", Options: options}},
	}
	var ran statistics.Aggregate
	for i := range int64(100) {
		ran.Add(1000 * (i + 1))
	}
	got, ok := PastOf(scheduling.DefaultTree, op, ran)
	if !ok || got.ID != "op" || got.Pool != "p" || !got.Started.Equal(began) || got.Weight != 3 {
		t.Errorf("got %+v, %v", got, ok)
	}
	if got.Jobs != 4 || got.Needs.CPU != 200 || got.Needs.UserSlots != 1 {
		t.Errorf("%d jobs need %v each, want 4 that need 2 cores on average", got.Jobs, got.Needs)
	}
	if got.Ended != 100 || len(got.Lengths) != pastPoints || got.Lengths[pastPoints/2] < 48 || got.Lengths[pastPoints/2] > 56 {
		t.Errorf("%d have ended, which took %v, want 50 s in the middle", got.Ended, got.Lengths)
	}
	ran.Buckets, ran.Counts = nil, nil
	if got, _ = PastOf(scheduling.DefaultTree, op, ran); len(got.Lengths) != 1 || got.Lengths[0] != 50.5 {
		t.Errorf("without a histogram jobs took %v, want 50.5 s", got.Lengths)
	}
	if got, _ = PastOf(scheduling.DefaultTree, op, statistics.Aggregate{}); got.Ended != 0 || got.Lengths != nil {
		t.Errorf("before any job has ended, %d took %v", got.Ended, got.Lengths)
	}
	if _, ok = PastOf("other", op, ran); ok {
		t.Error("it is in a tree that it is not in")
	}
}

// TestKindOf: operations are of a kind if all their tasks share memory profiles.
func TestKindOf(t *testing.T) {
	of := func(user string, commands ...string) *statepb.Operation {
		spec := &statepb.OperationSpec{Type: "vanilla"}
		for _, command := range commands {
			spec.Tasks = append(spec.Tasks, &statepb.TaskSpec{Name: "t", Argv: []string{command}})
		}
		return &statepb.Operation{User: user, Spec: spec}
	}
	one := kindOf(of("ann", "x", "y"))
	if one == "" || one != kindOf(of("ann", "x", "y")) || one == kindOf(of("ann", "x", "z")) || one == kindOf(of("bob", "x", "y")) {
		t.Error("kinds are not those of the users and commands")
	}
	if many := kindOf(of("ann", make([]string, 1000)...)); many == "" || len(many) > 100 {
		t.Errorf("the kind of an operation of many tasks has %d bytes, want few", len(many))
	}
	without := of("ann", "x")
	without.Spec.NoMemoryProfile = true
	if kind := kindOf(without); kind != "" {
		t.Errorf("without a profile the kind is %q", kind)
	}
}
