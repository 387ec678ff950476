package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/messages/explainpb"
)

const (
	// partSize is how many operations, jobs or nodes one call asks for.
	partSize = 1000
	// jobsListed is how many jobs of an operation are listed.
	jobsListed = 5000
)

// Texts writes sentences as the other verbs do.
type Texts struct {
	// Event says on one line what happened.
	Event func(e *eventpb.Event, where *time.Location) string
	// Explain is the whole of some explanations.
	Explain func(all []*explainpb.Explanation, ids figures.IDs, now time.Time) string
}

// source is a Cluster by the public API.
type source struct {
	*client.Client
	texts Texts

	names names

	// who is the caller, once that is known.
	mu  sync.Mutex
	who *apipb.WhoAmIResponse
}

// NewCluster returns the Cluster of a client.
func NewCluster(c *client.Client, texts Texts) Cluster { return &source{Client: c, texts: texts} }

// Fetch implements Cluster.
func (s *source) Fetch(ctx context.Context, q Question) (a Answer, err error) {
	switch q.About {
	case aboutCluster:
		a.Cluster, err = s.summary(ctx)
	case aboutPools:
		a.Pools, err = s.pools(ctx, q.Tree)
	case aboutOperations:
		err = s.operations(ctx, q, &a)
	case aboutOperation:
		err = s.operation(ctx, q.Operation, &a)
	case aboutJobs:
		err = s.jobs(ctx, q, &a)
	case aboutNodes:
		err = s.nodes(ctx, q, &a)
	case aboutNodeJobs:
		err = s.nodeJobs(ctx, q.Node, &a)
	case aboutEvents:
		err = s.events(ctx, q, &a)
	case aboutOutput:
		err = s.output(ctx, q, &a)
	case aboutReasons:
		a.Reasons, err = s.reasons(ctx, q.IDs)
	case aboutWhy:
		var all []*explainpb.Explanation
		all, err = s.Explain(ctx, &apipb.ExplainRequest{Operation: q.Operation, Job: q.Job, Pool: q.Pool, Tree: q.Tree})
		ids := s.called(ctx, figures.IDsIn(&apipb.ExplainResponse{Explanations: all})...)
		a.Text = []byte(s.texts.Explain(all, ids, time.Now()))
	case aboutRights:
		var may *apipb.MayIResponse
		may, err = s.MayI(ctx, &apipb.MayIRequest{Right: "manage", Operation: q.Operation})
		a.Allowed = may.GetAllowed()
	case aboutLoss:
		a.Loss, err = s.loss(ctx, q.Change)
	}
	return a, err
}

// Do implements Cluster.
func (s *source) Do(ctx context.Context, c Change) error {
	const reason = "weir top"
	switch {
	case c.Node != "" && c.Verb == Drain:
		return s.DrainNode(ctx, c.Node, reason, 0)
	case c.Node != "":
		return s.UndrainNode(ctx, c.Node)
	case c.Job != "" && c.Verb == Interrupt:
		_, err := s.InterruptJob(ctx, c.Job, reason, 0)
		return err
	case c.Job != "":
		return s.AbortJob(ctx, c.Job, reason)
	default:
		return s.AbortOperation(ctx, c.Operation, reason, 0)
	}
}

func (s *source) caller(ctx context.Context) (*apipb.WhoAmIResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.who != nil {
		return s.who, nil
	}
	who, err := s.WhoAmI(ctx)
	if err == nil {
		s.who = who
	}
	return who, err
}

func (s *source) summary(ctx context.Context) (Summary, error) {
	now, err := s.Status(ctx)
	if err != nil {
		return Summary{}, err
	}
	who, err := s.caller(ctx)
	return Summary{
		ID: now.GetClusterId(), Leader: now.GetLeader(), NodesOnline: now.GetNodesOnline(), NodesOffline: now.GetNodesOffline(),
		JobsRunning: now.GetJobsRunning(), JobsPending: now.GetJobsPending(), Problems: now.GetProblems(),
		CPU: now.GetUsage().GetCpu(), CPUTotal: now.GetTotal().GetCpu(),
		Memory: float64(now.GetUsage().GetMemory()), MemoryTotal: float64(now.GetTotal().GetMemory()),
		User: who.GetUser(), Operator: who.GetRole() == "operator",
	}, err
}

// pools returns the pools of a tree, or of all trees, with a line for each if there are several.
func (s *source) pools(ctx context.Context, tree string) ([]Pool, error) {
	names := []string{tree}
	if tree == "" {
		all, err := s.ListTrees(ctx)
		if err != nil {
			return nil, err
		}
		names = names[:0]
		for _, t := range all.GetTrees() {
			names = append(names, t.GetName())
		}
	}
	var out []Pool
	for _, name := range names {
		all, err := s.ListPoolsBriefly(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(names) > 1 {
			out = append(out, Pool{Tree: all.GetTree()})
		}
		out = append(out, poolTree(all.GetPools())...)
	}
	return out, nil
}

func (s *source) operations(ctx context.Context, q Question, a *Answer) error {
	part, err := s.ListOperations(ctx, &apipb.ListOperationsRequest{Pool: q.Pool, InProgress: !q.Ended, After: q.After, Limit: partSize})
	for _, op := range part.GetOperations() {
		// Pools of other trees may have the same name.
		if q.Tree == "" || len(op.GetTrees()) == 0 || slices.ContainsFunc(op.GetTrees(), func(t *apipb.OperationTree) bool { return t.GetTree() == q.Tree }) {
			a.Operations = append(a.Operations, operationRow(op))
		}
		a.After = op.GetId()
	}
	a.More = part.GetIncomplete() && a.After != ""
	return err
}

func (s *source) operation(ctx context.Context, id string, a *Answer) error {
	op, err := s.GetOperation(ctx, id)
	if err != nil {
		return err
	}
	a.Operation = detailOf(op)
	if a.Operation.waits() {
		a.Reasons, err = s.reasons(ctx, []string{op.GetId()})
	}
	return err
}

// reasons returns what operations wait for. One of them that is gone, or that says nothing, has none.
func (s *source) reasons(ctx context.Context, ids []string) (map[string]string, error) {
	out := make(map[string]string, len(ids))
	for _, id := range ids {
		all, err := s.Explain(ctx, &apipb.ExplainRequest{Operation: id})
		if client.CodeOf(err) != "" {
			continue
		}
		if err != nil {
			return out, err
		}
		for _, x := range all {
			out[id] = cmp.Or(out[id], x.GetText())
		}
	}
	for id, text := range out {
		out[id] = s.called(ctx, figures.TextIDs(text)...).In(text)
	}
	return out, nil
}

func (s *source) jobs(ctx context.Context, q Question, a *Answer) error {
	part, err := s.ListJobs(ctx, &apipb.ListJobsRequest{Operation: q.Operation, Limit: partSize, Offset: int32(q.Offset)})
	a.Jobs = jobRows(part.GetJobs())
	a.Offset = q.Offset + int64(len(a.Jobs))
	left := int64(part.GetTotal()) - a.Offset
	if a.More = len(a.Jobs) > 0 && left > 0 && a.Offset < jobsListed; !a.More && left > 0 {
		a.Note = fmt.Sprintf("and %s more jobs: weir job list shows them by state, task or node", grouped(int(left)))
	}
	return err
}

func (s *source) nodes(ctx context.Context, q Question, a *Answer) error {
	part, err := s.Nodes(ctx, &apipb.ListNodesRequest{After: q.After, Limit: partSize})
	a.Nodes = make([]Node, 0, len(part.GetNodes()))
	for _, n := range part.GetNodes() {
		a.Nodes = append(a.Nodes, nodeRow(n))
	}
	a.After = part.GetNext()
	a.More = a.After != ""
	return err
}

func (s *source) nodeJobs(ctx context.Context, node string, a *Answer) error {
	n, err := s.GetNode(ctx, node)
	a.Jobs = jobRows(n.GetJobs())
	var operations []string
	for _, j := range a.Jobs {
		operations = append(operations, j.Operation)
	}
	ids := s.called(ctx, operations...)
	for i := range a.Jobs {
		j := &a.Jobs[i]
		j.Called, j.User, j.Pool = titleOf(ids, j.Operation), ids.User(j.Operation), ids.Pool(j.Operation)
	}
	if n.GetHidden() > 0 {
		a.Note = fmt.Sprintf("and %d jobs of other users, which are not shown", n.GetHidden())
	}
	return err
}

// eventsAtOnce bounds the events of an answer.
const eventsAtOnce = 2000

func (s *source) events(ctx context.Context, q Question, a *Answer) error {
	request := &apipb.ReadEventsRequest{Index: q.Index, Position: q.Position, Operation: q.Operation, Node: q.Node}
	if !q.Since.IsZero() {
		request.Since = timestamppb.New(q.Since)
	}
	a.Index, a.Position = q.Index, q.Position
	var operations []string
	for e, err := range s.ReadEvents(ctx, request) {
		if err != nil {
			return err
		}
		a.Events = append(a.Events, Event{
			Index: e.GetIndex(), Position: e.GetPosition(), Time: e.GetTime().AsTime(), Kind: e.GetKind(), Text: s.texts.Event(e, time.Local),
			Operation: e.GetOperation(), Job: e.GetJob(), Node: e.GetNode(),
		})
		operations = append(operations, e.GetOperation(), e.GetPreemptedFor().GetOperation())
		a.Index, a.Position = e.GetIndex(), e.GetPosition()+1
		if len(a.Events) == eventsAtOnce {
			a.More = true
			break
		}
	}
	ids := s.called(ctx, operations...)
	for i := range a.Events {
		e := &a.Events[i]
		e.Text, e.Called = ids.In(e.Text), titleOf(ids, e.Operation)
	}
	return nil
}

func (s *source) output(ctx context.Context, q Question, a *Answer) error {
	part, err := s.JobOutput(ctx, &apipb.JobOutputRequest{JobId: q.Job, Stream: q.Stream, Offset: q.Offset})
	if err != nil {
		return err
	}
	a.Text, a.Offset, a.End, a.Note = part.GetData(), part.GetNextOffset(), part.GetEnd(), part.GetNote()
	if !a.End {
		// A character that is cut comes with the next part.
		whole := wholeRunes(a.Text)
		a.Offset -= int64(len(a.Text) - whole)
		a.Text = a.Text[:whole]
	}
	return nil
}

// usersAsked bounds how many operations are asked for their owners.
const usersAsked = 20

// loss counts what a change would end.
func (s *source) loss(ctx context.Context, c Change) (l Loss, err error) {
	var jobs []*apipb.Job
	owned := map[string]bool{}
	switch {
	case c.Node != "":
		var n *apipb.GetNodeResponse
		n, err = s.GetNode(ctx, c.Node)
		jobs, l.Jobs, l.More = n.GetJobs(), n.GetHidden(), n.GetHidden() > 0
	case c.Job != "":
		var j *apipb.Job
		j, err = s.GetJob(ctx, c.Job)
		jobs = []*apipb.Job{j}
	default:
		var part *apipb.ListJobsResponse
		part, err = s.ListJobs(ctx, &apipb.ListJobsRequest{Operation: c.Operation, State: "running", Limit: partSize})
		jobs = part.GetJobs()
		l.Jobs = max(int64(part.GetTotal())-int64(len(jobs)), 0)
		owned[c.Operation] = true
	}
	if err != nil {
		return l, err
	}
	now := time.Now()
	for _, j := range jobs {
		if j.GetFinishTime() != nil {
			continue
		}
		l.Jobs++
		l.Ran += max(now.Sub(at(j.GetStartTime())), 0)
		owned[j.GetOperationId()] = true
	}
	for id := range owned {
		if len(l.Users) == usersAsked {
			l.More = true
			break
		}
		op, err := s.GetOperation(ctx, id)
		if err != nil {
			return l, err
		}
		if !slices.Contains(l.Users, op.GetUser()) {
			l.Users = append(l.Users, op.GetUser())
		}
	}
	slices.Sort(l.Users)
	return l, nil
}
