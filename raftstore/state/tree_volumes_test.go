package state

import (
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// TestVolumesAreOfTheirOwnMoment keeps volumes after a command from a clock that runs
// ahead: what flows since is counted from the moment that their leader said.
func TestVolumesAreOfTheirOwnMoment(t *testing.T) {
	j := newJournal(t)
	moment := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ahead := createPool("saver", "", nil)
	ahead.Time = timestamppb.New(moment.Add(time.Minute))
	term := j.state.Term().GetTerm()
	j.must(ahead, &commandpb.CheckpointVolumes{Term: term, Time: timestamppb.New(moment), Volumes: []*statepb.PoolVolume{{Pool: "saver", UserSlots: 2}}})
	tree, _ := j.state.Tree(scheduling.DefaultTree)
	if got := tree.GetVolumesTime().AsTime(); !got.Equal(moment) {
		t.Errorf("the volumes are of %s, want %s", got, moment)
	}
}

// TestVolumesBeginOnce makes pools with integral guarantees: the first one begins the
// volumes of the tree, and later edits leave them alone.
func TestVolumesBeginOnce(t *testing.T) {
	j := newJournal(t)
	seen := func() (names []string, since time.Time) {
		tree, _ := j.state.Tree(scheduling.DefaultTree)
		for _, v := range tree.GetVolumes() {
			names = append(names, v.GetPool())
		}
		return names, tree.GetVolumesTime().AsTime()
	}
	j.must(createPool("plain", "", nil))
	if names, _ := seen(); len(names) > 0 {
		t.Errorf("volumes of %v in a tree without guarantees", names)
	}
	relaxed := map[string]any{"integral_guarantees": map[string]any{"guarantee_type": "relaxed", "resource_flow": map[string]any{"cpu": 1}}}
	j.must(changePool("plain", relaxed))
	_, since := seen()
	j.must(createPool("second", "", relaxed), changePool("plain", map[string]any{"weight": 2}))
	if names, now := seen(); len(names) != 1 || names[0] != "plain" || !now.Equal(since) || since.IsZero() {
		t.Errorf("volumes of %v since %v, want those of plain since %v", names, now, since)
	}
}

// TestACheckpointInFlightFollowsItsPools keeps volumes of pools as they were called
// when their leader looked: each goes to the pool that it was of, and to no other.
func TestACheckpointInFlightFollowsItsPools(t *testing.T) {
	j := newJournal(t)
	j.must(createPool("a", "", nil), createPool("b", "", nil), createPool("c", "", nil))
	term := j.state.Term().GetTerm()
	volumes := func() map[string]float64 {
		tree, _ := j.state.Tree(scheduling.DefaultTree)
		got := map[string]float64{}
		for _, v := range tree.GetVolumes() {
			got[v.GetPool()] = v.GetUserSlots()
		}
		return got
	}
	inFlight := &commandpb.CheckpointVolumes{Term: term}
	pools, _, _ := j.state.Pools(scheduling.DefaultTree)
	for i, p := range pools.Pools() {
		inFlight.Volumes = append(inFlight.Volumes, statepb.NewPoolVolume(p.Name, p.ID, resource.Volume{UserSlots: float64(i + 1)}, 0, 0))
	}
	renamed := func(from, to string) *commandpb.TreeEdit {
		return &commandpb.TreeEdit{Edit: &commandpb.TreeEdit_Rename{Rename: &commandpb.RenamePool{From: from, To: to}}}
	}
	swap := &commandpb.EditTree{Edits: []*commandpb.TreeEdit{
		renamed("a", "x"), renamed("b", "a"), renamed("x", "b"),
		{Edit: &commandpb.TreeEdit_Remove{Remove: "c"}},
		{Edit: &commandpb.TreeEdit_Create{Create: &statepb.Pool{Name: "c"}}},
	}}
	want := map[string]float64{"a": 2, "b": 1, "default": 4}
	j.must(proto.CloneOf(inFlight), swap)
	if got := volumes(); !maps.Equal(got, want) {
		t.Errorf("after the edit the volumes are %v, want %v", got, want)
	}
	j.must(inFlight)
	if got := volumes(); !maps.Equal(got, want) {
		t.Errorf("after a checkpoint from before the edit the volumes are %v, want %v", got, want)
	}
	if got := mustRestore(t, j.state.Freeze()); got.lastPool != j.state.lastPool {
		t.Errorf("restored with the last pool %d, want %d", got.lastPool, j.state.lastPool)
	}
}
