package scheduler

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/engine"
)

// resumption is volumes that a leader before has left, until all nodes that it had are
// back. Before that the cluster seems smaller, or empty, than what was granted and
// flowed in is worth.
type resumption struct {
	at      time.Time
	volumes []engine.PoolVolume
}

// setVolumes goes on from the volumes that a leader before has left: the time since
// then flows in and is paid (G7).
func (t *Tree) setVolumes(seed Seed) error {
	if len(seed.Volumes) == 0 {
		return nil
	}
	t.resume = &resumption{at: seed.VolumesTime}
	for _, v := range seed.Volumes {
		t.resume.volumes = append(t.resume.volumes, engine.PoolVolume{
			Pool: scheduling.PoolName(v.GetPool()), ID: scheduling.PoolID(v.GetPoolId()), Volume: v.Volume(), Rest: v.GetCpuRest(), LastShareRatio: v.GetLastShareRatio(),
		})
	}
	if err := t.engine.SetVolumes(t.resume.at, t.resume.volumes); err != nil {
		return fmt.Errorf("rebuild pool tree: %w", err)
	}
	return nil
}

// resumeVolumes has the next update begin with the volumes that were left, and so all
// the time since then, as long as nodes are awaited and once more.
func (t *Tree) resumeVolumes() {
	if t.resume == nil {
		return
	}
	// It fails when a pool has been removed: the others go on from the last update.
	if err := t.engine.SetVolumes(t.resume.at, t.resume.volumes); err != nil || len(t.awaited) == 0 {
		t.resume = nil
	}
}

// Checkpoint returns what to propose, so that the next leader goes on from the
// volumes of this moment; nil: no pool has any, or what was left is still to be gone
// on from.
func (t *Tree) Checkpoint(term uint64) proto.Message {
	if t.resume != nil {
		return nil
	}
	at, volumes := t.engine.Volumes()
	if len(volumes) == 0 {
		return nil
	}
	m := &commandpb.CheckpointVolumes{Term: term, Tree: string(t.name), Time: timestamppb.New(at)}
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
