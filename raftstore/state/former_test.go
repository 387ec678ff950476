package state

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/scheduling"
)

// TestFormerPoolOption takes what pools could be given once, without effect: in log
// entries, and in records.
func TestFormerPoolOption(t *testing.T) {
	j := newJournal(t)
	j.must(createPool("ads", "", map[string]any{"preemptive_scheduling_backoff": "1s", "weight": 2}), changePool("ads", map[string]any{"preemptive-scheduling-backoff": "2s", "max_operation_count": 60}))
	want := map[string]any{"weight": 2.0, "max_operation_count": 60.0}
	check := func(s *State) {
		t.Helper()
		record, _ := s.Tree(scheduling.DefaultTree)
		for _, p := range record.GetPools() {
			if p.GetName() == "ads" && !sameValues(p.GetOptions(), want) {
				t.Errorf("the pool has %v, want %v", p.GetOptions(), want)
			}
		}
	}
	check(j.state)
	old := recordsOf(t, j.state.Freeze())
	for _, record := range old {
		for _, p := range record.GetTree().GetPools() {
			if p.GetName() == "ads" {
				p.Options.Fields[formerPoolOption] = structpb.NewStringValue("1s")
			}
		}
	}
	s, err := restore(old)
	if err != nil {
		t.Fatal(err)
	}
	check(s)
}

func sameValues(got *structpb.Struct, want map[string]any) bool {
	if len(got.GetFields()) != len(want) {
		return false
	}
	for name, value := range want {
		if got.AsMap()[name] != value {
			return false
		}
	}
	return true
}
