package api

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// Instances shows the addresses of the jobs of an operation, as this replica sees them.
func (s operations) Instances(ctx context.Context, req *connect.Request[apipb.InstancesRequest]) (*connect.Response[apipb.InstancesResponse], error) {
	id, err := s.known(ctx, "instances", req.Msg.GetOperation())
	if err != nil {
		return nil, err
	}
	seen, err := s.instances(ctx, "instances", id, "")
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&apipb.InstancesResponse{OperationId: id, Instances: instancesOf(seen), Over: seen.GetOver()}), nil
}

// rightsChecked is how often a stream without news checks whether its caller still has the right to
// it: a right that was taken away ends the stream within a second.
const rightsChecked = 500 * time.Millisecond

// WatchInstances streams the instances at every change, and every Limits.KeepAlive without one. If
// the request asks for changes, only the first message holds all instances; later messages hold the
// differences. It ends with a refusal when the caller loses the right to see them.
func (s operations) WatchInstances(ctx context.Context, req *connect.Request[apipb.WatchInstancesRequest], stream *connect.ServerStream[apipb.WatchInstancesResponse]) error {
	id, err := s.known(ctx, "watch instances", req.Msg.GetOperation())
	if err != nil {
		return err
	}
	var before *actorpb.Instances
	var sent time.Time
	for {
		waiting, cancel := context.WithTimeout(ctx, min(s.cfg.Limits.KeepAlive, rightsChecked))
		seen, err := s.instances(waiting, "watch instances", id, before.GetVersion())
		cancel()
		if ctx.Err() != nil {
			return s.unavailable("watch instances", context.Cause(ctx))
		}
		if err != nil {
			return err
		}
		if err := s.stillReads(ctx, id); err != nil {
			return err
		}
		if before != nil && seen.GetVersion() == before.GetVersion() && !seen.GetOver() && time.Since(sent) < s.cfg.Limits.KeepAlive {
			continue
		}
		told := &apipb.WatchInstancesResponse{OperationId: id, Over: seen.GetOver()}
		if req.Msg.GetChanges() {
			changed := seen.ChangedSince(before)
			told.Version, told.Since, told.Forgotten = changed.GetVersion(), changed.GetSince(), changed.GetForgotten()
			told.Instances = instancesOf(changed)
		} else {
			told.Instances = instancesOf(seen)
		}
		if err := stream.Send(told); err != nil {
			return err
		}
		if seen.GetOver() {
			return nil
		}
		before, sent = seen, time.Now()
	}
}

// instances returns what Signals.Instances does. Other calls compute while it waits.
func (s operations) instances(ctx context.Context, what, id, version string) (*actorpb.Instances, error) {
	seen, err := resting(ctx, func() (*actorpb.Instances, error) { return s.cfg.Signals.Instances(ctx, id, version), nil })
	if err != nil {
		return nil, s.unavailable(what, err)
	}
	return seen, nil
}

// stillReads returns an error if the caller may not see the instances of an operation any more. The
// operation may be gone.
func (s operations) stillReads(ctx context.Context, id string) error {
	return denied(s.judge(ctx, "watch instances", func(st *state.State) error {
		if op, ok := st.Operation(scheduling.OperationID(id)); ok {
			return askerOf(ctx).read(st, op, "see the instances of")
		}
		return nil
	}))
}

// known returns the id of an operation named by id or alias. Instances are served without
// a quorum, so known needs one only for an operation that this replica does not know.
func (s operations) known(ctx context.Context, what, name string) (id string, err error) {
	err = s.judge(ctx, what, func(st *state.State) error {
		op, err := reads(ctx, st, name, "see the instances of")
		id = op.GetId()
		return err
	})
	if err == nil || connect.CodeOf(err) != connect.CodeNotFound {
		return id, err
	}
	return s.resolve(ctx, what, name)
}

func instancesOf(seen *actorpb.Instances) []*apipb.Instance {
	return mapped(seen.GetInstances(), func(in *actorpb.Instance) *apipb.Instance {
		return &apipb.Instance{
			JobId: in.GetJobId(), Task: in.GetTask(), Cookie: in.GetCookie(), Node: in.GetNode(), Host: in.GetHost(), Ports: in.GetPorts(),
			State: in.GetState(), Reason: in.GetReason(), Deadline: in.GetDeadline(), StartTime: in.GetStartTime(),
			Ready: in.GetReady(), Unready: in.GetUnready(),
		}
	})
}
