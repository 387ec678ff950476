package agent

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

const (
	// maxReads bounds the concurrent reads of output. maxPart bounds the bytes of one read.
	// Together they allow 16 MiB.
	maxReads = 16
	maxPart  = 1 << 20
)

// read answers with a part of a job's output.
func (a *agentActor) read(ctx actor.Context, m *actorpb.ReadOutput) {
	switch {
	case m.GetNode() != a.cfg.Node:
		respond(ctx, &actorpb.Refused{Code: actorpb.CodeNotFound, Reason: fmt.Sprintf("this is node %q, not %q", a.cfg.Node, m.GetNode())})
		return
	case a.reads >= maxReads:
		respond(ctx, &actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: fmt.Sprintf("%d output reads already in progress", a.reads), RetryMillis: 100})
		return
	}
	a.reads++
	sender, root := ctx.Sender(), ctx.ActorSystem().Root
	aside(ctx, func() work {
		answer := a.part(m)
		if sender != nil {
			root.Send(sender, answer)
		}
		return func(actor.Context) { a.reads-- }
	})
}

func (a *agentActor) part(m *actorpb.ReadOutput) proto.Message {
	limit := m.GetLimit()
	if limit <= 0 || limit > maxPart {
		limit = maxPart
	}
	part, err := a.processes.ReadOutput(m.GetJobId(), m.GetStream(), m.GetOffset(), limit)
	switch {
	case err == nil:
		return &actorpb.OutputPart{Data: part.Data, NextOffset: part.Next, End: part.End, Total: part.Total}
	case errors.Is(err, runner.ErrOutputGone):
		return &actorpb.Refused{Code: actorpb.CodeNotFound, Reason: err.Error()}
	default:
		return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: err.Error()}
	}
}

// readTail returns the end of stderr, which takes several reads if it is stored in parts.
func (a *jobActor) readTail() []byte {
	var data []byte
	offset := int64(-tailBytes)
	for len(data) < tailBytes {
		part, err := a.processes.ReadOutput(a.job.start.GetJobId(), "stderr", offset, tailBytes)
		if err != nil {
			a.cfg.Logger.Warn("cannot read end of stderr", "job", a.job.start.GetJobId(), "error", err)
			return data
		}
		data = append(data, part.Data...)
		if len(part.Data) == 0 || part.Next >= part.Total {
			break
		}
		offset = part.Next
	}
	return data[max(0, len(data)-tailBytes):]
}
