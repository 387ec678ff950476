package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/remote"
	"weir/actors/scheduler"
	"weir/cluster/storage"
	"weir/messages/actorpb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// Answer implements the Replica of the gateway.
func (r *Replica) Answer(ctx context.Context, m proto.Message) proto.Message {
	answer, err := r.answer(ctx, m)
	if err != nil {
		return asRefused(r, err)
	}
	return answer
}

// asRefused turns an error into an answer. The function expect turns that answer back into the error.
func asRefused(r *Replica, err error) proto.Message {
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
		results, err := door{r}.carryOut(ctx, m.GetCommands())
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
	case *actorpb.ReadOutput, *actorpb.ReadFile, *actorpb.Exec:
		return desk{r}.atNode(ctx, m.(interface{ GetNode() string }).GetNode(), m), nil
	default:
		return nil, fmt.Errorf("leader: unexpected message %T", m)
	}
}

func (d desk) schedulerView(ctx context.Context, leader *actor.PID, m *actorpb.SchedulerViewRequest) proto.Message {
	if m.GetRefused() {
		return &actorpb.SchedulerView{Refused: d.board.refusedAgents()}
	}
	if m.GetAgents() {
		return &actorpb.SchedulerView{Agents: d.board.agents()}
	}
	if len(m.GetReports()) > 0 {
		return &actorpb.SchedulerView{Nodes: d.board.reports(m.GetReports())}
	}
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
		if m.GetWithoutNodes() {
			view = withoutNodes(view)
		}
		return d.post(partOf(view, m.GetAfter(), viewBytes))
	case <-ctx.Done():
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: "scheduler did not respond in time"}
	}
}

// withoutNodes returns a view without nodes. It does not change the view, which is shared.
func withoutNodes(view *actorpb.SchedulerView) *actorpb.SchedulerView {
	return &actorpb.SchedulerView{Time: view.GetTime(), Term: view.GetTerm(), Elements: view.GetElements(), Total: view.GetTotal(), Updated: view.GetUpdated()}
}

// post returns the view with the latest reports of nodes. It does not change view, which is shared
// by all requests between two fair share updates.
func (d desk) post(view *actorpb.SchedulerView) *actorpb.SchedulerView {
	shown := &actorpb.SchedulerView{
		Time: view.GetTime(), Term: view.GetTerm(), Elements: view.GetElements(), Total: view.GetTotal(), Updated: view.GetUpdated(),
		Explanations: view.GetExplanations(), Next: view.GetNext(),
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
		n.LastHeartbeat, n.LeaseLeftMillis = posted.lastHeartbeat(), max(0, time.Until(posted.expires).Milliseconds())
		n.MemoryUsed, n.Files, n.Jobs = posted.view.GetMemoryUsed(), posted.view.GetFiles(), posted.view.GetJobs()
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

// atNode asks the agent of a node, which has a stream to the leader, about a job.
func (d desk) atNode(ctx context.Context, node string, m proto.Message) proto.Message {
	answer, err := d.remote.Request(ctx, peerOfAgent(node), actorpb.AgentName, m)
	switch {
	case errors.Is(err, remote.ErrNotConnected) || errors.Is(err, remote.ErrPeerGone):
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: fmt.Sprintf("node %q is not connected: its jobs can be asked once it is back", node)}
	case err != nil:
		return &actorpb.Refused{Code: actorpb.CodeUnavailable, Reason: fmt.Sprintf("node %q: %v", node, err)}
	default:
		return answer
	}
}

// viewFor asks the leader for a view, part by part.
func viewFor(ctx context.Context, r *Replica, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	view, err := askLeader[*actorpb.SchedulerView](ctx, r, m)
	if err != nil || view.GetNext() == "" {
		return view, err
	}
	// The parts may be of different moments, so an element may be missing that has just come.
	view = &actorpb.SchedulerView{
		Time: view.GetTime(), Term: view.GetTerm(), Total: view.GetTotal(), Updated: view.GetUpdated(), Explanations: view.GetExplanations(),
		Elements: slices.Clone(view.GetElements()), Nodes: slices.Clone(view.GetNodes()), Next: view.GetNext(),
	}
	for view.GetNext() != "" {
		more := proto.CloneOf(m)
		more.After = view.GetNext()
		part, err := askLeader[*actorpb.SchedulerView](ctx, r, more)
		if err != nil {
			return nil, err
		}
		view.Elements, view.Nodes = append(view.Elements, part.GetElements()...), append(view.Nodes, part.GetNodes()...)
		view.Next = part.GetNext()
	}
	return view, nil
}

// viewBytes bounds one part of a view; the latest reports of its nodes are added to it. It is well
// below what a message may have (remote.Limits.MaxMessageBytes).
const viewBytes = 2 << 20

// partOf returns the part of a view that follows `after` in the order of names, of about limit bytes;
// the view itself if that is not too large. Its Next is where it goes on.
func partOf(view *actorpb.SchedulerView, after string, limit int) *actorpb.SchedulerView {
	if after == "" && proto.Size(view) <= limit {
		return view
	}
	element := func(e *actorpb.ElementView) string {
		kind := "operation"
		if e.GetPool() {
			kind = "pool"
		}
		return strings.Join([]string{"element", e.GetTree(), kind, e.GetId()}, "\x00")
	}
	node := func(n *actorpb.NodeView) string { return "node\x00" + n.GetId() }
	part := &actorpb.SchedulerView{Time: view.GetTime(), Term: view.GetTerm(), Total: view.GetTotal(), Updated: view.GetUpdated()}
	if after == "" {
		part.Explanations = view.GetExplanations()
	}
	first := after
	part.Elements, limit, part.Next = following(view.GetElements(), element, first, limit, true)
	if part.GetNext() != "" {
		return part
	}
	if n := len(part.GetElements()); n > 0 {
		first = element(part.GetElements()[n-1])
	}
	part.Nodes, _, part.Next = following(view.GetNodes(), node, first, limit, len(part.GetElements()) == 0)
	return part
}

// following returns the messages after a key, in the order of their keys, of limit bytes together; at
// least one if that is asked for. Left is how many bytes are left, and next the key of the last one
// before those that are left out; empty if none are.
func following[M proto.Message](all []M, key func(M) string, after string, limit int, one bool) (some []M, left int, next string) {
	keys := make(map[string]M, len(all))
	for _, m := range all {
		if k := key(m); k > after {
			keys[k] = m
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		size := proto.Size(keys[k])
		if size > limit && (!one || len(some) > 0) {
			return some, 0, after
		}
		some, limit, after = append(some, keys[k]), limit-size, k
	}
	return some, limit, ""
}

// PoolHistory returns the pool history that the leader has recorded.
func (r *Replica) PoolHistory(ctx context.Context, m *actorpb.PoolHistoryRequest) (*actorpb.PoolHistory, error) {
	return askLeader[*actorpb.PoolHistory](ctx, r, m)
}

// JobLive returns the latest reports of nodes about jobs; jobs without a report are left out.
func (r *Replica) JobLive(ctx context.Context, jobs []string) (*actorpb.JobLive, error) {
	return askLeader[*actorpb.JobLive](ctx, r, &actorpb.JobLiveRequest{JobIds: jobs})
}

// nodeReads read what jobs have written, on their nodes or in stores, and run commands beside them.
type nodeReads struct{ replica *Replica }

// ReadOutput reads a part of a job's output.
func (n nodeReads) ReadOutput(ctx context.Context, m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
	return askLeader[*actorpb.OutputPart](ctx, n.replica, m)
}

// ReadFile reads a part of a file of a running job.
func (n nodeReads) ReadFile(ctx context.Context, m *actorpb.ReadFile) (*actorpb.FilePart, error) {
	return askLeader[*actorpb.FilePart](ctx, n.replica, m)
}

// Exec starts a command beside a job's own, gives it input, or reads its output.
func (n nodeReads) Exec(ctx context.Context, m *actorpb.Exec) (*actorpb.ExecPart, error) {
	return askLeader[*actorpb.ExecPart](ctx, n.replica, m)
}

// ReadObject returns at most limit bytes of an object of an operation from offset on, and how many it has.
func (n nodeReads) ReadObject(ctx context.Context, operation, path string, offset, limit int64) (data []byte, size int64, err error) {
	objects, ok := through(n.replica.cfg.Storage, storesOf(n.replica).of(operation)).(*storage.Storage)
	if !ok {
		return nil, 0, fmt.Errorf("object %s: %w", path, storage.ErrNoObject)
	}
	return objects.ReadObject(ctx, path, offset, limit)
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
