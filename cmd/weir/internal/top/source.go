package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/api/client"
	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/messages/explainpb"
)

// partSize is how many operations or jobs one call asks for.
const partSize = 1000

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
		err = s.nodes(ctx, &a)
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

// poolTree orders pools so that each is followed by those below it, which are one step deeper.
func poolTree(pools []*apipb.Pool) []Pool {
	below := make(map[string][]*apipb.Pool)
	known := make(map[string]bool)
	for _, p := range pools {
		below[p.GetParent()] = append(below[p.GetParent()], p)
		known[p.GetName()] = true
	}
	var out []Pool
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for _, p := range below[parent] {
			out = append(out, poolRow(p, depth))
			add(p.GetName(), depth+1)
		}
	}
	for _, p := range pools {
		if !known[p.GetParent()] {
			known[p.GetParent()] = true
			add(p.GetParent(), 0)
		}
	}
	return out
}

func poolRow(p *apipb.Pool, depth int) Pool {
	starvation := p.GetStarvationStatus()
	if starvation == "non_starving" {
		starvation = ""
	}
	return Pool{
		Tree: p.GetTree(), Name: p.GetName(), Depth: depth, Known: p.FairShare != nil,
		Usage: p.GetUsageShare(), Fair: p.GetFairShare(), Demand: p.GetDemandShare(), Guarantee: p.GetStrongGuaranteeShare(),
		Claimed: p.GetClaimedShare(), Dominant: p.GetDominantResource(), Weight: p.GetEffectiveWeight(),
		Running: int64(p.GetRunningOperationCount()), MaxRunning: int64(p.GetEffectiveMaxRunningOperationCount()), Operations: int64(p.GetOperationCount()),
		Starvation: starvation, BelowFair: p.GetSchedulingStatus() == "below_fair_share", Below: at(p.GetBelowSince()),
		Volume: p.GetAccumulatedResourceRatioVolume(), Capacity: p.GetIntegralPoolCapacity(),
	}
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

func operationRow(op *apipb.Operation) Operation {
	out := Operation{
		ID: op.GetId(), Alias: op.GetAlias(), Title: op.GetTitle(), User: op.GetUser(), Pool: op.GetPool(), State: op.GetState(),
		Suspended: op.GetSuspended(), Pending: op.GetPendingReason(), Hidden: op.GetHidden(), Progress: progress(op.GetProgress()),
		Start: at(op.GetStartTime()), Finish: at(op.GetFinishTime()), Known: op.FairShare != nil,
		Usage: op.GetUsageShare(), Fair: op.GetFairShare(), Demand: op.GetDemandShare(),
	}
	if op.GetState() != "completed" {
		out.Failure = op.GetResult().GetMessage()
	}
	return out
}

func progress(p *apipb.TaskProgress) Progress {
	return Progress{Total: p.GetTotal(), Pending: p.GetPending(), Running: p.GetRunning(), Completed: p.GetCompleted(), Failed: p.GetFailed(), Aborted: p.GetAborted()}
}

// at returns a time, or none.
func at(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func (s *source) operation(ctx context.Context, id string, a *Answer) error {
	op, err := s.GetOperation(ctx, id)
	if err != nil {
		return err
	}
	a.Operation = Detail{Operation: operationRow(op), Type: op.GetType()}
	for _, t := range op.GetTasks() {
		a.Operation.Tasks = append(a.Operation.Tasks, Task{
			Name: t.GetName(), Progress: progress(t), Resources: amountsOf(t.GetJobResources()),
			Reserve: t.GetMemory().GetReserve().GetTotal(),
		})
	}
	for _, alert := range op.GetAlerts() {
		a.Operation.Alerts = append(a.Operation.Alerts, strings.TrimSpace(alert.GetMessage()+": "+alert.GetAdvice()))
	}
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
	a.More = len(a.Jobs) > 0 && a.Offset < int64(part.GetTotal())
	return err
}

func jobRows(jobs []*apipb.Job) []Job {
	out := make([]Job, 0, len(jobs))
	for _, j := range jobs {
		row := Job{
			ID: j.GetId(), Operation: j.GetOperationId(), Task: j.GetTask(), Node: j.GetNode(), State: j.GetState(), Cookie: int64(j.GetCookie()), Attempt: int64(j.GetAttempt()),
			Start: at(j.GetStartTime()), Finish: at(j.GetFinishTime()), MaxMemory: j.GetStatistics().GetMaxMemory(), Reserve: j.GetReserve().GetTotal(),
			Resources: amountsOf(j.GetResources()), Deadline: at(j.GetInterruption().GetDeadline()),
			Why: cmp.Or(j.GetAbortReason(), j.GetInterruption().GetPreemption(), j.GetInterruption().GetReason(), j.GetStopping()),
		}
		if message := j.GetError().GetMessage(); message != "" && message != row.Why {
			row.Why = strings.TrimPrefix(row.Why+": "+message, ": ")
		}
		out = append(out, row)
	}
	return out
}

func (s *source) nodes(ctx context.Context, a *Answer) error {
	nodes, err := s.ListNodes(ctx, "")
	a.Nodes = make([]Node, 0, len(nodes))
	for _, n := range nodes {
		row := Node{
			ID: n.GetId(), State: n.GetState(), Host: n.GetHost(), Tree: n.GetTree(), Tags: strings.Join(n.GetTags(), " "), Version: n.GetVersion(), Caveat: n.GetCaveat(),
			Jobs: n.GetJobs(), Heartbeat: at(n.GetLastHeartbeat()), CPU: n.GetUsage().GetCpu(), CPUTotal: n.GetResources().GetCpu(),
			Memory: float64(n.GetUsage().GetMemory()), MemoryTotal: float64(n.GetResources().GetMemory()), MemoryUsed: float64(n.GetMemoryUsed()),
			GPU: n.GetUsage().GetGpu(), GPUTotal: n.GetResources().GetGpu(), Drained: n.GetDrain() != nil,
		}
		if d := n.GetDrain(); d != nil {
			row.Drain = strings.TrimSuffix("drained by "+d.GetUser()+": "+d.GetReason(), ": ")
		}
		a.Nodes = append(a.Nodes, row)
	}
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

// wholeRunes returns how many bytes of a text there are without a character that is cut at its end.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= max(len(text)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(text[i]) {
			if i > 0 && !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
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

func amountsOf(r *apipb.Resources) string {
	if r == nil {
		return ""
	}
	return figures.Amounts(r)
}
