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

// resumption is the checkpoint of the previous leader, kept until all nodes that it had are back.
// Until then the cluster seems smaller, or empty. So the volumes that pools are granted and use
// would be wrong, and it is unknown which elements are below their share.
type resumption struct {
	at      time.Time
	volumes []engine.PoolVolume
	clocks  []engine.ElementClock
	age     engine.Age
}

// setKept sets the checkpoint of the previous leader, and resumes from its volumes, so that flow
// and grants since then are accounted for (G7).
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

// resumeVolumes makes the next update start from the volumes of the checkpoint.
func (t *Tree) resumeVolumes() error {
	if len(t.resume.volumes) == 0 {
		return nil
	}
	return t.engine.SetVolumes(t.resume.at, t.resume.volumes)
}

// resumeKept makes the next update start from the volumes of the checkpoint, so that the update
// accounts for all the time since the checkpoint. It does this while nodes are awaited, and once
// more when none are; this last call also restores the clocks. `left` is the checkpoint; nil in
// calls after the last one.
func (t *Tree) resumeKept() (left *resumption) {
	if left = t.resume; left == nil {
		return nil
	}
	if t.resumeVolumes() != nil {
		// A pool has been removed. The volumes of the others continue from the last update.
		left.volumes = nil
	}
	if len(t.nodes.awaited) == 0 {
		t.engine.SetClocks(left.clocks)
		t.resume = nil
	}
	return left
}

// Checkpoint returns the command that lets the next leader resume from this moment. kept is the
// tree's current record. Checkpoint returns nil if the record is up to date, or if this leader has
// not yet resumed from the previous one.
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

// checkpoint is the state of the actor's checkpoints.
type checkpoint struct {
	// last is when the last checkpoint was proposed. inFlight means that this checkpoint has no
	// answer yet.
	last     time.Time
	inFlight bool
}

// due reports whether it is time for the next checkpoint.
func (c checkpoint) due(now time.Time, every time.Duration) bool {
	return !c.inFlight && now.Sub(c.last) >= every
}
