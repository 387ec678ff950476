package agent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

const (
	// maxReads bounds the concurrent reads of output and files. maxPart bounds the bytes of one read.
	// Together they allow 16 MiB.
	maxReads = 16
	maxPart  = 1 << 20
)

// read answers with a part of what a job has written. The function `part` may block.
func (a *agentActor) read(ctx actor.Context, part func() proto.Message) {
	a.answer(ctx, &a.reads, maxReads, "reads of output or files", part)
}

// answer answers a request with a message. The function `find` may block; `running` counts those of its kind.
func (a *agentActor) answer(ctx actor.Context, running *int, limit int, kind string, find func() proto.Message) {
	if *running >= limit {
		respond(ctx, &actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: fmt.Sprintf("%d %s already in progress", *running, kind), RetryMillis: 100})
		return
	}
	*running++
	sender, root := ctx.Sender(), ctx.ActorSystem().Root
	aside(ctx, func() work {
		answer := find()
		if sender != nil {
			root.Send(sender, answer)
		}
		return func(actor.Context) { *running-- }
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

// file returns a part of a file of a running job, or of one that was kept.
func (a *agentActor) file(m *actorpb.ReadFile) proto.Message {
	if m.GetOffset() < 0 || m.GetLimit() <= 0 || m.GetLimit() > maxPart {
		return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: fmt.Sprintf("read file: offset %d, limit %d", m.GetOffset(), m.GetLimit())}
	}
	read := func() (runner.FilePart, error) {
		if m.GetKept() != "" {
			user, group := a.cfg.runsAs(m.GetUser(), m.GetGroup())
			return a.processes.ReadKept(m.GetKept(), user, group, m.GetPath(), m.GetOffset(), m.GetLimit())
		}
		return a.processes.ReadFile(m.GetJobId(), m.GetPath(), m.GetOffset(), m.GetLimit())
	}
	part, err := read()
	switch {
	case errors.Is(err, runner.ErrNoFile):
		return &actorpb.Refused{Code: actorpb.CodeNotFound, Reason: err.Error()}
	case err != nil:
		return &actorpb.Refused{Code: actorpb.CodeBadRequest, Reason: err.Error()}
	}
	answer := &actorpb.FilePart{Data: part.Data, Folder: part.Folder, More: part.More, Size: part.Size, NextOffset: part.Next}
	for _, e := range part.Entries {
		answer.Entries = append(answer.Entries, &actorpb.FileEntry{
			Name: strings.ToValidUTF8(e.Name, "\uFFFD"), Size: e.Size, Modified: timestamppb.New(e.Modified), Mode: e.Mode.String(), Link: strings.ToValidUTF8(e.Link, "\uFFFD"),
		})
	}
	return answer
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
