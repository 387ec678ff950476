package scheduler

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/explainpb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/explain"
	"weir/scheduling/resource"
)

// inquire starts an explain request about an operation or a pool of this tree.
func (t *Tree) inquire(of *actorpb.SchedulerViewRequest, now time.Time) (*engine.Inquiry, error) {
	if of.GetOperation() != "" {
		return t.engine.Inquire(scheduling.OperationID(of.GetOperation()), now)
	}
	return t.engine.InquirePool(scheduling.PoolName(of.GetPool()), now)
}

// Explain explains why the jobs of an operation do not start, and when they are expected to: an
// explain request as a whole.
func (t *Tree) Explain(id scheduling.OperationID, now time.Time) (explain.Explanation, error) {
	q, err := t.engine.Inquire(id, now)
	if err != nil {
		return explain.Explanation{}, err
	}
	for done := false; !done; done = q.Reason() {
		for q.Wants() {
			t.engine.Attend(q)
		}
	}
	t.engine.Conclude(q)
	return q.Explanation(), nil
}

// explainJob explains the state of a job. A job that the engine does not know has no explanation
// here.
func (t *Tree) explainJob(cfg Config, of *actorpb.SchedulerViewRequest, now time.Time) *actorpb.SchedulerView {
	found, err := t.engine.ExplainJob(scheduling.JobID(of.GetJob()))
	if err != nil {
		return nothing(cfg)
	}
	return explanation(cfg, of, found, now)
}

// nothing returns the answer of a tree that has nothing to show.
func nothing(cfg Config) *actorpb.SchedulerView {
	return &actorpb.SchedulerView{Time: timestamppb.New(cfg.Now()), Term: cfg.Term}
}

// explanation returns the answer to an explain request.
func explanation(cfg Config, of *actorpb.SchedulerViewRequest, found explain.Explanation, now time.Time) *actorpb.SchedulerView {
	out := &explainpb.Explanation{Tree: string(cfg.Tree), Time: timestamppb.New(now)}
	switch {
	case of.GetOperation() != "":
		out.Subject, out.Id = "operation", of.GetOperation()
	case of.GetPool() != "":
		out.Subject, out.Id, out.Pool = "pool", of.GetPool(), of.GetPool()
	default:
		out.Subject, out.Id = "job", of.GetJob()
	}
	explained(out, found)
	explainpb.Bound(out)
	return &actorpb.SchedulerView{Time: timestamppb.New(now), Term: cfg.Term, Explanations: []*explainpb.Explanation{out}}
}

// explained copies the engine's explanation to out.
func explained(out *explainpb.Explanation, x explain.Explanation) {
	out.Verdict, out.Position, out.Waiting, out.EstimatedStart = x.Verdict, int32(x.Position), int32(x.Waiting), moment(x.Start)
	out.EstimatedBy, out.EstimatedEarliest, out.EstimatedLatest = x.StartBy, moment(x.Earliest), moment(x.Latest)
	for _, f := range x.Facts {
		out.Facts = append(out.Facts, &explainpb.Fact{
			Code: f.Code, Text: f.Text, Pool: string(f.Pool), Operation: string(f.Operation), Task: string(f.Task), Job: string(f.Job), Node: string(f.Node),
			Resource: f.Resource, Setting: f.Setting, Value: f.Value, Bound: f.Bound, Count: f.Count, Of: f.Of, Time: moment(f.At), Until: moment(f.Until),
		})
	}
	if len(out.GetFacts()) > 0 {
		out.Text = out.GetFacts()[0].GetText()
	}
	for _, t := range x.Tasks {
		out.Tasks = append(out.Tasks, &explainpb.Task{
			Name: string(t.Name), Verdict: t.Verdict, Pending: t.Pending, JobResources: wordsOf(t.PerJob), Nodes: nodesOf(t.Nodes),
			DedicatedMemory: t.Group, Gang: gangOf(t.Gang),
		})
	}
	for _, v := range x.Victims {
		out.LikelyVictims = append(out.LikelyVictims, &explainpb.Victim{
			Job: string(v.Job), Operation: string(v.Operation), Node: string(v.Node), StartTime: moment(v.Started),
		})
	}
	for _, w := range x.Waits {
		out.Waits = append(out.Waits, &explainpb.Wait{
			Verdict: w.Verdict, Operations: int32(w.Operations), Jobs: w.Jobs, First: string(w.First), Text: w.Text,
		})
	}
	if s := x.Share; s.Resource != "" {
		out.Share = &explainpb.Share{
			Resource: s.Resource, Fair: s.Fair, Usage: s.Usage, Demand: s.Demand, Limits: s.Limits, StrongGuarantee: s.Strong,
			IntegralGuarantee: s.Integral, WeightProportional: s.Proportional, Bound: s.Bound, Weight: s.Weight, Weights: s.Weights,
		}
	}
}

// gangOf returns nil for a task whose jobs start one by one.
func gangOf(g explain.Gang) *explainpb.Gang {
	if g.Size == 0 {
		return nil
	}
	return &explainpb.Gang{Size: g.Size, Together: g.Missing, Held: g.Gathered, Until: moment(g.Until)}
}

func nodesOf(c explain.NodeCounts) *explainpb.Nodes {
	out := &explainpb.Nodes{
		All: int32(c.All), Closed: int32(c.Closed), Unmatched: int32(c.Unmatched), TooSmall: int32(c.TooSmall), Full: int32(c.Full),
		Held: int32(c.Held), Fit: int32(c.Fit), TooSmallBy: byResource(c.SmallBy), LackingBy: byResource(c.LackingBy),
	}
	for _, f := range c.UnmatchedBy {
		out.UnmatchedBy = append(out.UnmatchedBy, &explainpb.Filter{Pool: string(f.Pool), Filter: f.Filter, Nodes: int32(f.Nodes)})
	}
	return out
}

func byResource(of [resource.Count]int) map[string]int32 {
	out := map[string]int32{}
	for k, n := range of {
		if n > 0 {
			out[resource.Kind(k).String()] = int32(n)
		}
	}
	return out
}

// wordsOf converts resources to the units that people use.
func wordsOf(a resource.Amounts) *explainpb.Resources {
	return &explainpb.Resources{UserSlots: a.UserSlots, Cpu: a.CPU.Cores(), Gpu: a.GPU, Memory: a.Memory, Network: a.Network}
}

// moment converts a time; it returns nil for the zero time.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
