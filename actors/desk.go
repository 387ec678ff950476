package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/remote"
	"weir/actors/scheduler"
	"weir/messages/actorpb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// desk answers what other replicas ask of the one that leads.
type desk struct{ r *Replica }

// Propose implements the Leader of the gateway.
func (d *desk) Propose(ctx context.Context, m *actorpb.Propose) proto.Message {
	results, err := d.r.commit(ctx, m.GetCommands()...)
	if err != nil {
		return d.refuse(fromStore(err))
	}
	return &actorpb.Proposed{Results: results}
}

// ReadIndex implements the Leader of the gateway.
func (d *desk) ReadIndex(ctx context.Context) proto.Message {
	index, err := d.r.store.ReadIndex(ctx)
	if err != nil {
		return d.refuse(fromStore(err))
	}
	current, _ := d.r.store.Leadership()
	return &actorpb.ReadIndex{Index: index, Term: current.Term}
}

// SchedulerView implements the Leader of the gateway.
func (d *desk) SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) proto.Message {
	leader := d.r.leader.Load()
	if leader == nil {
		return d.r.Redirect()
	}
	if m.GetExplain() {
		if !d.r.askers.Enter() {
			return &actorpb.Refused{Code: actorpb.CodeOverloaded, RetryMillis: d.r.cfg.Gateway.RetryMillis,
				Reason: fmt.Sprintf("%d explain requests already queued: ask again in a moment", scheduler.MaxAskers)}
		}
		defer d.r.askers.Leave()
	}
	answers := make(chan *actorpb.SchedulerView, 1)
	d.r.system.Root.Send(leader, viewRequest{m, func(v *actorpb.SchedulerView) { answers <- v }, func() bool { return ctx.Err() != nil }})
	select {
	case view := <-answers:
		return d.post(view)
	case <-ctx.Done():
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "scheduler did not respond in time"}
	}
}

// post returns the view with what nodes said last. The view itself stays as it is:
// all who ask between two fair share updates get the same.
func (d *desk) post(view *actorpb.SchedulerView) *actorpb.SchedulerView {
	shown := &actorpb.SchedulerView{
		Time: view.GetTime(), Term: view.GetTerm(), Elements: view.GetElements(), Total: view.GetTotal(), Updated: view.GetUpdated(),
		Explanations: view.GetExplanations(),
	}
	if shown.Time == nil {
		shown.Time = timestamppb.Now()
	}
	shown.Nodes = make([]*actorpb.NodeView, 0, len(view.GetNodes()))
	for _, seen := range view.GetNodes() {
		n := &actorpb.NodeView{Id: seen.GetId(), Usage: seen.GetUsage(), Limits: seen.GetLimits()}
		shown.Nodes = append(shown.Nodes, n)
		posted, ok := d.r.board.node(n.GetId())
		if !ok {
			continue
		}
		n.LastHeartbeat = posted.GetLastHeartbeat()
		n.MemoryUsed, n.Files = posted.GetMemoryUsed(), posted.GetFiles()
		n.Jobs = posted.GetJobs()
		if at := posted.GetLastHeartbeat(); at != nil {
			n.LeaseLeftMillis = max(posted.GetLeaseLeftMillis()-time.Since(at.AsTime()).Milliseconds(), 0)
		}
	}
	return shown
}

// JobLive implements the Leader of the gateway.
func (d *desk) JobLive(m *actorpb.JobLiveRequest) proto.Message {
	if d.r.leader.Load() == nil {
		return d.r.Redirect()
	}
	nodes := make([]string, len(m.GetJobIds()))
	d.r.store.View(func(s *state.State) {
		for i, id := range m.GetJobIds() {
			if a, ok := s.Allocation(scheduling.JobID(id)); ok {
				nodes[i] = a.GetNode()
			}
		}
	})
	live := &actorpb.JobLive{}
	for i, id := range m.GetJobIds() {
		if held := d.r.board.job(nodes[i], id); held != nil {
			live.Jobs = append(live.Jobs, held)
		}
	}
	return live
}

// ReadOutput implements the Leader of the gateway: the node's agent has a stream
// to the leader.
func (d *desk) ReadOutput(ctx context.Context, m *actorpb.ReadOutput) proto.Message {
	if d.r.leader.Load() == nil {
		return d.r.Redirect()
	}
	answer, err := d.r.remote.Request(ctx, peerOfAgent(m.GetNode()), actorpb.AgentName, m)
	switch {
	case errors.Is(err, remote.ErrNotConnected) || errors.Is(err, remote.ErrPeerGone):
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: fmt.Sprintf("node %q is not connected: output of its jobs can be read once it is back", m.GetNode())}
	case err != nil:
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: fmt.Sprintf("node %q: %v", m.GetNode(), err)}
	default:
		return answer
	}
}

// refuse turns an error into an answer that expect turns back.
func (d *desk) refuse(err error) proto.Message {
	switch {
	case errors.Is(err, errElsewhere):
		return d.r.Redirect()
	case errors.Is(err, ErrOutcomeUnknown):
		return &actorpb.Refused{Code: actorpb.CodeOutcomeUnknown, Reason: err.Error()}
	case errors.Is(err, ErrOverloaded):
		return &actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: err.Error(), RetryMillis: d.r.cfg.Gateway.RetryMillis}
	default:
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: err.Error()}
	}
}

// SchedulerView returns what the leader's engines see.
func (r *Replica) SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	return askLeader[*actorpb.SchedulerView](ctx, r, m, func(ctx context.Context) proto.Message { return (&desk{r}).SchedulerView(ctx, m) })
}

// JobLive returns what nodes last said of jobs; those of which nothing is known
// are left out.
func (r *Replica) JobLive(ctx context.Context, jobs []string) (*actorpb.JobLive, error) {
	m := &actorpb.JobLiveRequest{JobIds: jobs}
	return askLeader[*actorpb.JobLive](ctx, r, m, func(context.Context) proto.Message { return (&desk{r}).JobLive(m) })
}

// ReadOutput reads a part of a job's output from its node.
func (r *Replica) ReadOutput(ctx context.Context, m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
	return askLeader[*actorpb.OutputPart](ctx, r, m, func(ctx context.Context) proto.Message { return (&desk{r}).ReadOutput(ctx, m) })
}

// askLeader asks the leader: this replica by here, another by its gateway.
func askLeader[T proto.Message](ctx context.Context, r *Replica, m proto.Message, here func(context.Context) proto.Message) (answer T, err error) {
	err = r.atLeader(ctx, func(leader string) error {
		var got proto.Message
		if leader == r.cfg.ID {
			got = here(ctx)
		} else if got, err = r.remote.Request(ctx, peerOf(leader), actorpb.GatewayName, m); err != nil {
			return fromRemote(err)
		}
		answer, err = expect[T](got)
		return err
	})
	return answer, err
}
