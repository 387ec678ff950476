package api

import (
	"context"
	"maps"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"weir/messages/apipb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/memory"
	"weir/scheduling/statistics"
)

// Statistics shows the statistics of the finished jobs of an operation.
func (s operations) Statistics(ctx context.Context, req *connect.Request[apipb.OperationStatisticsRequest]) (*connect.Response[apipb.OperationStatisticsResponse], error) {
	const what = "show statistics"
	m := req.Msg
	if ended, err := lifecycle.ParseJobState(m.GetState()); m.GetState() != "" && (err != nil || !ended.Terminal()) {
		return nil, invalid("%s: state %q: must be %s, %s or %s", what, m.GetState(), lifecycle.JobCompleted, lifecycle.JobFailed, lifecycle.JobAborted)
	}
	out := &apipb.OperationStatisticsResponse{}
	err := s.read(ctx, what, func(st *state.State) error {
		op, err := reads(ctx, st, m.GetOperation(), "see the statistics of")
		if err != nil {
			return err
		}
		out.OperationId = op.GetId()
		if err := checkTask(what, op, m.GetTask()); err != nil {
			return err
		}
		var all statistics.Set
		for i, measured := range st.Statistics(scheduling.OperationID(op.GetId())) {
			task := op.GetTasks()[i]
			all.Merge(measured.Set)
			if m.GetTask() != "" && m.GetTask() != task.GetName() {
				continue
			}
			out.Statistics = append(out.Statistics, shownStatistics(task.GetName(), m.GetState(), measured.Set)...)
			out.Advice = append(out.Advice, adviceOf(op, task, measured.Set))
		}
		if m.GetTask() == "" && len(op.GetTasks()) > 1 {
			out.Statistics = append(shownStatistics("", m.GetState(), all), out.Statistics...)
		}
		return nil
	})
	return answer(out, err)
}

// shownStatistics returns the statistics of a task by state and name. If `only` is
// empty, it returns totals over all states, then the statistics of each state. If `only` names a
// state, it returns the statistics of that state.
func shownStatistics(task, only string, set statistics.Set) []*apipb.Statistic {
	var out []*apipb.Statistic
	states := make(map[string]bool)
	names := make(map[string]bool)
	for _, entry := range set {
		states[entry.State], names[entry.Name] = true, true
	}
	ordered := slices.Sorted(maps.Keys(states))
	if only == "" {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out = append(out, statisticOf(task, "", name, set.Total(name)))
		}
	} else {
		ordered = []string{only}
	}
	for _, ended := range ordered {
		for _, entry := range set {
			if entry.State == ended {
				out = append(out, statisticOf(task, ended, entry.Name, entry.Aggregate))
			}
		}
	}
	return out
}

func statisticOf(task, ended, name string, a statistics.Aggregate) *apipb.Statistic {
	about, _ := statistics.Describe(name)
	out := &apipb.Statistic{
		Task: task, State: ended, Name: name, Unit: string(about.Unit), Description: about.Text, Count: a.Count, Sum: a.Sum, Min: a.Min, Max: a.Max,
	}
	if len(a.Buckets) > 0 {
		out.P50, out.P95, out.P99 = proto.Int64(a.Quantile(0.5)), proto.Int64(a.Quantile(0.95)), proto.Int64(a.Quantile(0.99))
	}
	return out
}

// adviceOf compares the memory that jobs of a task asked for, reserved and used.
func adviceOf(op *statepb.Operation, task *statepb.Task, set statistics.Set) *apipb.MemoryAdvice {
	asked := op.GetSpec().MemoryTask(describedTask(op, task.GetName()))
	a := memory.Advise(asked, task.GetMemory().GetReserve().Reserve(), set, lifecycle.JobCompleted.String())
	return &apipb.MemoryAdvice{
		Task: task.GetName(), Limit: a.Limit, Reserve: a.Reserve, Jobs: a.Jobs, P50: a.P50, P95: a.P95, Max: a.Max,
		ReservedByteSeconds: a.Reserved, UsedByteSeconds: a.Used, WastedByteSeconds: a.Wasted, SetLimit: a.SetLimit, Text: a.Text,
	}
}

// Statistics shows the statistics of a job: all of them if it has finished, or those that its node
// last reported if it is running.
func (s jobs) Statistics(ctx context.Context, req *connect.Request[apipb.JobStatisticsRequest]) (*connect.Response[apipb.JobStatisticsResponse], error) {
	const what = "show statistics of job"
	job, err := s.locate(ctx, what, req.Msg.GetJobId())
	if err != nil {
		return nil, err
	}
	if err := s.addLive(ctx, what, []*apipb.Job{job}); err != nil {
		return nil, err
	}
	out := &apipb.JobStatisticsResponse{JobId: job.GetId(), State: job.GetState()}
	values := job.GetStatistics().GetValues()
	if used := job.GetStatistics().GetMaxMemory(); values == nil && used > 0 {
		values = map[string]int64{statistics.UserMaxMemory: used}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		about, _ := statistics.Describe(name)
		out.Statistics = append(out.Statistics, &apipb.JobStatistic{Name: name, Unit: string(about.Unit), Description: about.Text, Value: values[name]})
	}
	return connect.NewResponse(out), nil
}
