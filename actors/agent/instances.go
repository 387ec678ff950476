package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/agent/discovery"
	"weir/messages/actorpb"
)

// instances asks replicas for the jobs of an operation: one of them until it fails.
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
	type answer struct {
		reply proto.Message
		err   error
	}
	answered := make(chan answer, 1)
	i.replicas.Ask(to, request, millis(request.GetWaitMillis())+i.timeout, func(reply proto.Message, err error) {
		answered <- answer{reply, err}
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-answered:
		if told, ok := a.reply.(*actorpb.Instances); ok && a.err == nil {
			i.pause.reset()
			return told, nil
		}
		i.turn++
		if a.err != nil {
			return nil, fmt.Errorf("ask %s: %w", to.ID, a.err)
		}
		return nil, fmt.Errorf("ask %s: %s", to.ID, describe(a.reply))
	}
}

// Pause implements discovery.Source.
func (i *instances) Pause() time.Duration { return i.pause.pause() }
