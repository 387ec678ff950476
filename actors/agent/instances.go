package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"weir/actors/agent/discovery"
	"weir/messages/actorpb"
)

// instances asks replicas for the jobs of an operation. It asks the same replica until that replica
// fails to answer.
type instances struct {
	replicas Replicas
	known    *atomic.Pointer[[]Replica]
	timeout  time.Duration
	turn     int
	pause    backoff
}

// newInstances returns a source that begins with any replica.
func newInstances(replicas Replicas, known *atomic.Pointer[[]Replica], timing Timing) discovery.Source {
	return &instances{
		replicas: replicas, known: known, timeout: timing.AskTimeout, turn: rand.IntN(maxReplicas),
		pause: backoff{min: timing.ReportMin, max: timing.ReportMax, chance: rand.Float64},
	}
}

// Ask implements discovery.Source.
func (i *instances) Ask(ctx context.Context, request *actorpb.InstancesRequest) (*actorpb.Instances, error) {
	all := *i.known.Load()
	to := all[i.turn%len(all)]
	reply, err := ask(ctx, i.replicas, to, request, millis(request.GetWaitMillis())+i.timeout)
	if told, ok := reply.(*actorpb.Instances); ok && err == nil {
		i.pause.reset()
		return told, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	i.turn++
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", to.ID, err)
	}
	return nil, fmt.Errorf("ask %s: %s", to.ID, describe(reply))
}

// Pause implements discovery.Source.
func (i *instances) Pause() time.Duration { return i.pause.pause() }
