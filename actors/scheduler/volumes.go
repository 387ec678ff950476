package scheduler

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
)

// resumption is what a leader before has left, until all nodes that it had are back.
// Before that the cluster seems smaller, or empty, than what was granted, and flowed in, is
// worth, and nobody can say who is below its share.
type resumption struct {
	at      time.Time
	volumes []engine.PoolVolume
	clocks  []engine.ElementClock
	age     engine.Age
}

// setKept takes what a leader before has left, and goes on from its volumes: the time
// since then flows in and is paid (G7).
func (t *Tree) setKept(kept *statepb.PoolTree) error {
	t.resume = &resumption{at: kept.GetVolumesTime().AsTime(), clocks: clocksOf(kept.GetClocks()), age: ageOf(kept.GetAge())}
	for _, v := range kept.GetVolumes() {
		t.resume.volumes = append(t.resume.volumes, engine.PoolVolume{
			Pool: scheduling.PoolName(v.GetPool()), ID: scheduling.PoolID(v.GetPoolId()), Volume: v.Volume(), Rest: v.GetCpuRest(), LastShareRatio: v.GetLastShareRatio(),
		})
	}
	if len(t.resume.volumes)+len(t.resume.clocks)+len(t.resume.age.Takings) == 0 {
		t.resume = nil
		return nil
	}
	if err := t.resumeVolumes(); err != nil {
		return fmt.Errorf("rebuild pool tree: %w", err)
	}
	return nil
}

// resumeVolumes has the next update begin with the volumes that were left.
func (t *Tree) resumeVolumes() error {
	if len(t.resume.volumes) == 0 {
		return nil
	}
	return t.engine.SetVolumes(t.resume.at, t.resume.volumes)
}

// resumeKept has the next update begin with the volumes that were left, and so all the
// time since then, as long as nodes are awaited and once more; then it begins with the
// clocks as well. It returns what was left until then.
func (t *Tree) resumeKept() (left *resumption) {
	if left = t.resume; left == nil {
		return nil
	}
	if t.resumeVolumes() != nil {
		// A pool has been removed: the others go on from the last update.
		left.volumes = nil
	}
	if len(t.nodes.awaited) == 0 {
		t.engine.SetClocks(left.clocks)
		t.resume = nil
	}
	return left
}

// Checkpoint returns what to propose, so that the next leader goes on from this moment,
// when the record of the tree is kept; nil: there is nothing that it does not have, or what
// was left is still to be gone on from.
func (t *Tree) Checkpoint(term uint64, kept *statepb.PoolTree) proto.Message {
	if t.resume != nil {
		return nil
	}
	at, volumes := t.engine.Volumes()
	m := &commandpb.CheckpointVolumes{
		Term: term, Tree: string(t.name), Time: timestamppb.New(at), Clocks: clocksSince(kept.GetClocks(), t.engine.Clocks()), Age: ageRecord(t.engine.Age(state.MaxTakings)),
	}
	if proto.Equal(m.GetAge(), kept.GetAge()) || len(m.GetAge().GetTakings()) == 0 && kept.GetAge() == nil {
		m.Age = nil
	}
	if len(volumes)+len(m.GetClocks()) == 0 && m.GetAge() == nil {
		return nil
	}
	for _, v := range volumes {
		m.Volumes = append(m.Volumes, statepb.NewPoolVolume(v.Pool, v.ID, v.Volume, v.Rest, v.LastShareRatio))
	}
	return m
}

// checkpoint is what the actor knows of its checkpoints.
type checkpoint struct {
	// last is when one was proposed, inFlight whether it has no answer yet.
	last     time.Time
	inFlight bool
}

// due reports whether it is time for one.
func (c checkpoint) due(now time.Time, every time.Duration) bool {
	return !c.inFlight && now.Sub(c.last) >= every
}
