package scheduler

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/explainpb"
	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/resource"
)

// explain answers why an operation, a pool or a job is as it is in this tree. What the
// engine does not know has no explanation here.
func (t *Tree) explain(cfg Config, of *actorpb.SchedulerViewRequest, now time.Time) *actorpb.SchedulerView {
	v := &actorpb.SchedulerView{Time: timestamppb.New(now), Term: cfg.Term}
	out := &explainpb.Explanation{Tree: string(cfg.Tree), Time: timestamppb.New(now)}
	var found engine.Explanation
	var err error
	switch {
	case of.GetOperation() != "":
		out.Subject, out.Id = "operation", of.GetOperation()
		found, err = t.engine.Explain(scheduling.OperationID(of.GetOperation()), now)
	case of.GetPool() != "":
		out.Subject, out.Id, out.Pool = "pool", of.GetPool(), of.GetPool()
		found, err = t.engine.ExplainPool(scheduling.PoolName(of.GetPool()))
	default:
		out.Subject, out.Id = "job", of.GetJob()
		found, err = t.engine.ExplainJob(scheduling.JobID(of.GetJob()))
	}
	if err == nil {
		explained(out, found)
		v.Explanations = append(v.Explanations, out)
	}
	return v
}

// explained writes down what the engine says.
func explained(out *explainpb.Explanation, x engine.Explanation) {
	out.Verdict, out.Position, out.Waiting, out.EstimatedStart = x.Verdict, int32(x.Position), int32(x.Waiting), moment(x.Start)
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
		})
	}
	for _, v := range x.Victims {
		out.LikelyVictims = append(out.LikelyVictims, &explainpb.Victim{
			Job: string(v.Job), Operation: string(v.Operation), Node: string(v.Node), StartTime: moment(v.Started),
		})
	}
	if s := x.Share; s.Resource != "" {
		out.Share = &explainpb.Share{
			Resource: s.Resource, Fair: s.Fair, Usage: s.Usage, Demand: s.Demand, Limits: s.Limits, StrongGuarantee: s.Strong,
			IntegralGuarantee: s.Integral, WeightProportional: s.Proportional, Bound: s.Bound, Weight: s.Weight, Weights: s.Weights,
		}
	}
}

func nodesOf(c engine.NodeCounts) *explainpb.Nodes {
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

// wordsOf puts resources into the words that people use.
func wordsOf(a resource.Amounts) *explainpb.Resources {
	return &explainpb.Resources{UserSlots: a.UserSlots, Cpu: a.CPU.Cores(), Gpu: a.GPU, Memory: a.Memory, Network: a.Network}
}

// moment is not set for a time that is not known.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
