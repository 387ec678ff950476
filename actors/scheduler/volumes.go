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

// setVolumes goes on from the volumes that a leader before has left: the time since
// then flows in and is paid (G7).
func (t *Tree) setVolumes(seed Seed) error {
	if len(seed.Volumes) == 0 {
		return nil
	}
	volumes := make([]engine.PoolVolume, len(seed.Volumes))
	for i, v := range seed.Volumes {
		volumes[i] = engine.PoolVolume{Pool: scheduling.PoolName(v.GetPool()), Volume: v.Volume(), LastShareRatio: v.GetLastShareRatio()}
	}
	if err := t.engine.SetVolumes(seed.VolumesTime, volumes); err != nil {
		return fmt.Errorf("rebuild pool tree: %w", err)
	}
	return nil
}

// Checkpoint returns what to propose, so that the next leader goes on from the
// volumes of this moment; nil: no pool has any.
func (t *Tree) Checkpoint(term uint64) proto.Message {
	at, volumes := t.engine.Volumes()
	if len(volumes) == 0 {
		return nil
	}
	m := &commandpb.CheckpointVolumes{Term: term, Tree: string(t.name), Time: timestamppb.New(at)}
	for _, v := range volumes {
		m.Volumes = append(m.Volumes, statepb.NewPoolVolume(string(v.Pool), v.Volume, v.LastShareRatio))
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
