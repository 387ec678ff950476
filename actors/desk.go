package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/remote"
	"weir/actors/scheduler"
	"weir/messages/actorpb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// Answer implements the Replica of the gateway.
func (r *Replica) Answer(ctx context.Context, m proto.Message) proto.Message {
	answer, err := r.answer(ctx, m)
	if err != nil {
		return r.refuse(err)
	}
	return answer
}

// refuse turns an error into an answer. The function expect turns that answer back into the error.
func (r *Replica) refuse(err error) proto.Message {
	switch {
	case errors.Is(err, errElsewhere):
		return r.Redirect()
	case errors.Is(err, ErrOutcomeUnknown):
		return &actorpb.Refused{Code: actorpb.CodeOutcomeUnknown, Reason: err.Error()}
	case errors.Is(err, ErrOverloaded):
		return &actorpb.Refused{Code: actorpb.CodeOverloaded, Reason: err.Error(), RetryMillis: r.cfg.Gateway.RetryMillis}
	default:
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: err.Error()}
	}
}

// desk answers requests to the replica that leads.
type desk struct{ *Replica }

// answer handles a request, from this or another replica, to the replica that leads.
func (r *Replica) answer(ctx context.Context, m proto.Message) (proto.Message, error) {
	switch m := m.(type) {
	case *actorpb.Propose:
		results, err := r.commit(ctx, m.GetCommands()...)
		return &actorpb.Proposed{Results: results}, fromStore(err)
	case *actorpb.ReadIndexRequest:
		index, err := r.store.ReadIndex(ctx)
		current, _ := r.store.Leadership()
		return &actorpb.ReadIndex{Index: index, Term: current.Term}, fromStore(err)
	case *actorpb.PoolHistoryRequest:
		if m.GetOfFollower() {
			return r.histories.Answer(m), nil
		}
	}
	leader := r.leader.Load()
	if leader == nil {
		return nil, errElsewhere
	}
	switch m := m.(type) {
	case *actorpb.SchedulerViewRequest:
		return desk{r}.schedulerView(ctx, leader, m), nil
	case *actorpb.PoolHistoryRequest:
		return r.histories.Answer(m), nil
	case *actorpb.JobLiveRequest:
		return desk{r}.jobLive(m), nil
	case *actorpb.ReadOutput:
		return desk{r}.readOutput(ctx, m), nil
	default:
		return nil, fmt.Errorf("leader: unexpected message %T", m)
	}
}

func (d desk) schedulerView(ctx context.Context, leader *actor.PID, m *actorpb.SchedulerViewRequest) proto.Message {
	if m.GetExplain() {
		if !d.askers.Enter() {
			return &actorpb.Refused{Code: actorpb.CodeOverloaded, RetryMillis: d.cfg.Gateway.RetryMillis,
				Reason: fmt.Sprintf("%d explain requests already queued: ask again in a moment", scheduler.MaxAskers)}
		}
		defer d.askers.Leave()
	}
	answers := make(chan *actorpb.SchedulerView, 1)
	d.system.Root.Send(leader, viewRequest{m, func(v *actorpb.SchedulerView) { answers <- v }, func() bool { return ctx.Err() != nil }})
	select {
	case view := <-answers:
		return d.post(view)
	case <-ctx.Done():
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "scheduler did not respond in time"}
	}
}

// post returns the view with the latest reports of nodes. It does not change view, which is shared
// by all requests between two fair share updates.
func (d desk) post(view *actorpb.SchedulerView) *actorpb.SchedulerView {
	shown := &actorpb.SchedulerView{
		Time: view.GetTime(), Term: view.GetTerm(), Elements: view.GetElements(), Total: view.GetTotal(), Updated: view.GetUpdated(),
		Explanations: view.GetExplanations(),
	}
	if shown.Time == nil {
		shown.Time = timestamppb.New(d.cfg.Clock.Now())
	}
	shown.Nodes = make([]*actorpb.NodeView, 0, len(view.GetNodes()))
	for _, seen := range view.GetNodes() {
		n := &actorpb.NodeView{Id: seen.GetId(), Usage: seen.GetUsage(), Limits: seen.GetLimits()}
		shown.Nodes = append(shown.Nodes, n)
		posted, ok := d.board.node(n.GetId())
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

// jobLive returns the latest reports of nodes about jobs.
func (d desk) jobLive(m *actorpb.JobLiveRequest) *actorpb.JobLive {
	nodes := make([]string, len(m.GetJobIds()))
	d.store.View(func(s *state.State) {
		for i, id := range m.GetJobIds() {
			if a, ok := s.Allocation(scheduling.JobID(id)); ok {
				nodes[i] = a.GetNode()
			}
		}
	})
	live := &actorpb.JobLive{}
	for i, id := range m.GetJobIds() {
		if held := d.board.job(nodes[i], id); held != nil {
			live.Jobs = append(live.Jobs, held)
		}
	}
	return live
}

// readOutput asks the agent of the node, which has a stream to the leader.
func (d desk) readOutput(ctx context.Context, m *actorpb.ReadOutput) proto.Message {
	answer, err := d.remote.Request(ctx, peerOfAgent(m.GetNode()), actorpb.AgentName, m)
	switch {
	case errors.Is(err, remote.ErrNotConnected) || errors.Is(err, remote.ErrPeerGone):
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: fmt.Sprintf("node %q is not connected: output of its jobs can be read once it is back", m.GetNode())}
	case err != nil:
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: fmt.Sprintf("node %q: %v", m.GetNode(), err)}
	default:
		return answer
	}
}

// SchedulerView returns the view of the leader's engines.
func (r *Replica) SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	return askLeader[*actorpb.SchedulerView](ctx, r, m)
}

// PoolHistory returns the pool history that the leader has recorded.
func (r *Replica) PoolHistory(ctx context.Context, m *actorpb.PoolHistoryRequest) (*actorpb.PoolHistory, error) {
	return askLeader[*actorpb.PoolHistory](ctx, r, m)
}

// JobLive returns the latest reports of nodes about jobs; jobs without a report are left out.
func (r *Replica) JobLive(ctx context.Context, jobs []string) (*actorpb.JobLive, error) {
	return askLeader[*actorpb.JobLive](ctx, r, &actorpb.JobLiveRequest{JobIds: jobs})
}

// ReadOutput reads a part of a job's output from its node.
func (r *Replica) ReadOutput(ctx context.Context, m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
	return askLeader[*actorpb.OutputPart](ctx, r, m)
}

// askLeader sends a request to the leader, in this process or to the gateway of another replica,
// and retries until ctx is done.
func askLeader[T proto.Message](ctx context.Context, r *Replica, m proto.Message) (answer T, err error) {
	err = r.atLeader(ctx, func(leader string) error {
		var got proto.Message
		var err error
		if leader == r.cfg.ID {
			got, err = r.answer(ctx, m)
		} else if got, err = r.remote.Request(ctx, peerOf(leader), actorpb.GatewayName, m); err != nil {
			err = fromRemote(err)
		}
		if err == nil {
			answer, err = expect[T](got)
		}
		return err
	})
	return answer, err
}
