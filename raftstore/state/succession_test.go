package state

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

// TestClocksAreOfWhatThereIs keeps the clocks of checkpoints, of which each has only what
// has changed, as long as they run and their pools and operations are there.
func TestClocksAreOfWhatThereIs(t *testing.T) {
	j := newJournal(t)
	j.must(createPool("a", "", nil), createPool("b", "", nil))
	j.run("one", specOf(1))
	j.run("two", specOf(1))
	pools, _, _ := j.state.Pools(scheduling.DefaultTree)
	id := map[string]uint64{}
	for _, p := range pools.Pools() {
		id[string(p.Name)] = uint64(p.ID)
	}
	at := timestamppb.New(epochStart)
	pool := func(name string) *statepb.StarvationClock {
		return &statepb.StarvationClock{PoolId: id[name], BelowSince: at}
	}
	operation := func(id string) *statepb.StarvationClock {
		return &statepb.StarvationClock{OperationId: id, BelowMinShareSince: at}
	}
	keep := func(clocks ...*statepb.StarvationClock) {
		j.must(&commandpb.CheckpointVolumes{Term: 1, Clocks: clocks})
	}
	want := func(want ...string) {
		t.Helper()
		record, _ := mustRestore(t, j.state.Freeze()).Tree(scheduling.DefaultTree)
		var got []string
		for _, k := range record.GetClocks() {
			name := k.GetOperationId()
			for pool, i := range id {
				if k.GetPoolId() == i {
					name = pool
				}
			}
			got = append(got, name+k.GetStarvation())
		}
		if !slices.Equal(got, want) {
			t.Errorf("clocks of %q are kept, want %q", got, want)
		}
	}
	keep(operation("two"), pool("b"), operation("nobody"), &statepb.StarvationClock{PoolId: 99, BelowSince: at})
	want("b", "two")
	starving := operation("two")
	starving.Starvation = "starving"
	keep(pool("a"), operation("one"), starving)
	want("a", "b", "one", "twostarving")
	j.must(edit(removal("a"), renaming("b", "c")), &commandpb.AbortOperation{OperationId: "one", User: "ann"})
	j.must(&commandpb.AdvanceOperation{OperationId: "one", Term: 1, From: "aborting", To: "aborted"})
	keep()
	want("b", "twostarving")
	keep(&statepb.StarvationClock{OperationId: "two"}, &statepb.StarvationClock{PoolId: id["b"]})
	want()
}

// TestTheAgeIsReplaced by a checkpoint that tells of one, and ends with an edit.
func TestTheAgeIsReplaced(t *testing.T) {
	j := newJournal(t)
	took := &commandpb.CheckpointVolumes{Term: 1, Age: &statepb.PreemptionAge{Digest: 7, Takings: []*statepb.Taking{{OperationId: "one", FromOperationId: "two"}}}}
	want := func(what string, want int) {
		t.Helper()
		record, _ := mustRestore(t, j.state.Freeze()).Tree(scheduling.DefaultTree)
		if got := len(record.GetAge().GetTakings()); got != want {
			t.Errorf("%s: %d takings are kept, want %d", what, got, want)
		}
	}
	for i, step := range []struct {
		command *commandpb.CheckpointVolumes
		want    int
	}{{took, 1}, {&commandpb.CheckpointVolumes{Term: 1}, 1}, {&commandpb.CheckpointVolumes{Term: 1, Age: &statepb.PreemptionAge{}}, 0}, {took, 1}} {
		j.must(step.command)
		want(fmt.Sprintf("step %d", i), step.want)
	}
	j.must(createPool("a", "", nil))
	want("after an edit", 0)
}
