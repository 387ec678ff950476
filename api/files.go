package api

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"

	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/access"
	"weir/scheduling/lifecycle"
)

// maxFilePath bounds the paths of files of jobs, in bytes: the longest that Linux takes.
const maxFilePath = 4096

// File reads a part of a file of a running job, or of one that was kept, or of the list of a folder, from the job's node. It needs the right to
// manage the operation: files hold more than a job prints.
func (s jobs) File(ctx context.Context, req *connect.Request[apipb.JobFileRequest]) (*connect.Response[apipb.JobFileResponse], error) {
	const what = "job file"
	m := req.Msg
	switch {
	case m.GetOffset() < 0:
		return nil, invalid("%s: offset %d: must not be negative", what, m.GetOffset())
	case len(m.GetPath()) > maxFilePath:
		return nil, invalid("%s: a path of %d bytes, the limit is %d", what, len(m.GetPath()), maxFilePath)
	case strings.ContainsRune(m.GetPath(), 0):
		return nil, invalid("%s: the path has a zero byte", what)
	}
	job, err := s.locate(ctx, what, m.GetJobId())
	if err != nil {
		return nil, err
	}
	wanted := &actorpb.ReadFile{JobId: job.GetId(), Node: job.GetNode(), Path: m.GetPath(), Offset: m.GetOffset(), Limit: outputBytes}
	switch {
	case m.GetKept():
		list, object, err := s.kept(what, job, wanted)
		if object != "" && err == nil {
			list, err = s.object(ctx, what, job, object, m.GetOffset())
		}
		if list != nil || err != nil {
			return answer(list, err)
		}
	case job.GetFinishTime() != nil:
		return nil, fail(connect.CodeFailedPrecondition, apipb.CodeJobEnded,
			"%s: job %s is %s, and its files are gone: output_paths of its task are kept of jobs that complete (weir job output)", what, job.GetId(), ending(job))
	}
	part, err := s.cfg.Leader.ReadFile(ctx, wanted)
	if err != nil {
		return nil, s.noFile(what, job, err)
	}
	out := &apipb.JobFileResponse{Data: part.GetData(), Folder: part.GetFolder(), More: part.GetMore(), Size: part.GetSize(), NextOffset: part.GetNextOffset()}
	for _, e := range part.GetEntries() {
		out.Entries = append(out.Entries, &apipb.JobFile{Name: e.GetName(), Size: e.GetSize(), Modified: e.GetModified(), Mode: e.GetMode(), Link: e.GetLink()})
	}
	return connect.NewResponse(out), nil
}

// kept completes a request for a file that was kept of a job; if that is an object in a store, it returns where. Without
// a path it returns the list of what was kept instead.
func (s jobs) kept(what string, job *apipb.Job, wanted *actorpb.ReadFile) (list *apipb.JobFileResponse, object string, err error) {
	if job.GetState() != lifecycle.JobCompleted.String() {
		return nil, "", fail(connect.CodeFailedPrecondition, apipb.CodeNoSuchFile, "%s: job %s is %s: output_paths are kept of jobs that complete", what, job.GetId(), ending(job))
	}
	var task *statepb.TaskSpec
	var ungranted error
	s.cfg.Store.View(func(st *state.State) {
		if op, ok := st.Operation(scheduling.OperationID(job.GetOperationId())); ok {
			task = describedTask(op, job.GetTask())
			ungranted = state.RightsIn(st).MayStillRunAs(op)
		}
	})
	if ungranted != nil {
		return nil, "", denied(ungranted)
	}
	if task == nil {
		return nil, "", fail(connect.CodeNotFound, apipb.CodeNoSuchFile, "%s: the description of the operation of job %s is no longer kept", what, job.GetId())
	}
	list = &apipb.JobFileResponse{Folder: true, Size: int64(len(task.GetOutputs())), NextOffset: int64(len(task.GetOutputs()))}
	names := task.Places(job.GetOperationId(), job.GetCookie(), job.GetId())
	path := filepath.Clean(wanted.GetPath())
	for _, file := range task.GetOutputs() {
		destination, of := names.Replace(file.GetDestination()), filepath.Clean(file.GetPath())
		list.Entries = append(list.Entries, &apipb.JobFile{Name: file.GetPath(), Link: destination})
		rest, below := strings.CutPrefix(path, of+"/")
		switch {
		case wanted.GetPath() == "" || path != of && !below:
		case strings.HasPrefix(destination, "s3://") && below:
			return nil, "", fail(connect.CodeNotFound, apipb.CodeNoSuchFile, "%s: %q is one object, %s, with nothing below it", what, file.GetPath(), destination)
		case strings.HasPrefix(destination, "s3://"):
			return nil, destination, nil
		default:
			wanted.Kept, wanted.User, wanted.Group, wanted.Path = destination, task.GetUser(), task.GetGroup(), ""
			if below {
				wanted.Path = rest
			}
			return nil, "", nil
		}
	}
	if wanted.GetPath() != "" {
		return nil, "", fail(connect.CodeNotFound, apipb.CodeNoSuchFile, "%s: %q is none of the output_paths of task %s, nor below one", what, wanted.GetPath(), job.GetTask())
	}
	return list, "", nil
}

// object reads a part of an object that was kept of a job.
func (s jobs) object(ctx context.Context, what string, job *apipb.Job, path string, offset int64) (*apipb.JobFileResponse, error) {
	part, err := resting(ctx, func() (*apipb.JobFileResponse, error) {
		data, size, err := s.cfg.Objects.ReadObject(ctx, job.GetOperationId(), path, offset, outputBytes)
		return &apipb.JobFileResponse{Data: data, Size: size, NextOffset: offset + int64(len(data))}, err
	})
	var missing *access.Denied
	switch {
	case err == nil:
		return part, nil
	case errors.As(err, &missing):
		return nil, denied(err)
	case errors.Is(err, storage.ErrNoObject):
		return nil, fail(connect.CodeNotFound, apipb.CodeNoSuchFile, "%s: %v", what, err)
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, errNoTurn), ctx.Err() != nil:
		return nil, s.unavailable(what, err)
	default:
		return nil, fail(connect.CodeFailedPrecondition, apipb.CodeNoSuchFile, "%s: %v", what, err)
	}
}

// noFile returns the error for a file that could not be read.
func (s jobs) noFile(what string, job *apipb.Job, err error) error {
	var refused *actorpb.Refused
	if errors.As(err, &refused) {
		switch refused.GetCode() {
		case actorpb.CodeNotFound:
			return fail(connect.CodeNotFound, apipb.CodeNoSuchFile, "%s: %s", what, refused.GetReason())
		case actorpb.CodeBadRequest:
			return invalid("%s: %s", what, refused.GetReason())
		}
	}
	return s.unreached(what, job, err)
}

// unreached returns the error for a node that could not be asked about a job.
func (s jobs) unreached(what string, job *apipb.Job, err error) error {
	var node *statepb.Node
	s.cfg.Store.View(func(st *state.State) { node, _ = st.Node(scheduling.NodeID(job.GetNode())) })
	if node.GetState() != statepb.NodeOnline {
		return fail(connect.CodeFailedPrecondition, state.CodeNodeOffline, "%s: node %q of job %s is offline", what, job.GetNode(), job.GetId())
	}
	return s.unavailable(what, fmt.Errorf("node %q: %w", job.GetNode(), err))
}
