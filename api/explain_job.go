package api

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/explainpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
	"weir/scheduling/resource"
)

// job explains the state of a job, and why it has to stop or had to stop.
func (s explanations) job(ctx context.Context, m *apipb.ExplainRequest) ([]*explainpb.Explanation, error) {
	of := jobs(s)
	job, err := of.locate(ctx, "explain job", m.GetJob())
	if err != nil {
		return nil, err
	}
	if err := of.addLive(ctx, "explain job", []*apipb.Job{job}); err != nil {
		return nil, err
	}
	x := &explainpb.Explanation{Subject: "job", Id: job.GetId(), State: job.GetState(), Time: timestamppb.New(s.cfg.Now())}
	s.cfg.Store.View(func(st *state.State) {
		x.Pool = poolOfJob(st, job)
		if node, ok := st.Node(scheduling.NodeID(job.GetNode())); ok {
			x.Tree = node.GetTree()
		}
	})
	tell(x, verdictOfJob(job))
	if why := job.GetInterruption(); why != nil {
		if job.GetFinishTime() != nil {
			tell(x, leaving(job, why))
		}
		addBeneficiary(x, job, why)
		if why.GetMessage() != "" {
			tell(x, &explainpb.Fact{Code: factReason, Job: job.GetId(), Text: why.GetMessage()})
		}
	}
	if message := job.GetError().GetMessage(); message != "" && message != job.GetInterruption().GetMessage() {
		tell(x, &explainpb.Fact{Code: factReason, Job: job.GetId(), Text: message})
	}
	all := []*explainpb.Explanation{x}
	if job.GetFinishTime() == nil {
		if err := s.addScheduler(ctx, all, &actorpb.SchedulerViewRequest{Tree: x.GetTree(), Job: job.GetId()}); err != nil {
			return nil, err
		}
	}
	s.cutAll(ctx, all, false)
	return all, nil
}

// poolOfJob returns the pool in which a job was granted. For a job that has ended it returns the
// present pool of the operation in the tree of the node; empty if the operation or the node is
// unknown.
func poolOfJob(st *state.State, job *apipb.Job) string {
	if a, ok := st.Allocation(scheduling.JobID(job.GetId())); ok && a.GetPool() != "" {
		return a.GetPool()
	}
	op, ok := st.Operation(scheduling.OperationID(job.GetOperationId()))
	node, known := st.Node(scheduling.NodeID(job.GetNode()))
	if !ok || !known {
		return ""
	}
	return op.In(node.GetTree()).GetPool()
}

// verdictOfJob returns the main fact about the state of a job.
func verdictOfJob(job *apipb.Job) *explainpb.Fact {
	f := &explainpb.Fact{Job: job.GetId(), Operation: job.GetOperationId(), Task: job.GetTask(), Node: job.GetNode(), Time: job.GetStartTime()}
	switch {
	case job.GetFinishTime() != nil:
		f.Time = job.GetFinishTime()
		return ended(job, f)
	case job.GetInterruption() != nil:
		return leaving(job, job.GetInterruption())
	case job.GetStopping() != "":
		f.Code, f.Setting = factJobStopping, job.GetStopping()
		f.Text = fmt.Sprintf("it is being stopped: %s", job.GetStopping())
	case job.GetState() == lifecycle.JobWaiting.String():
		f.Code = factJobWaiting
		f.Text = fmt.Sprintf("it was granted to node %s at %s; the node has not confirmed yet that it runs", job.GetNode(), clock(job.GetStartTime()))
	default:
		f.Code = factJobRunning
		f.Text = fmt.Sprintf("it runs on node %s, granted at %s", job.GetNode(), clock(job.GetStartTime()))
	}
	return f
}

// ended says how a job ended.
func ended(job *apipb.Job, f *explainpb.Fact) *explainpb.Fact {
	switch job.GetState() {
	case lifecycle.JobCompleted.String():
		f.Code, f.Text = factJobCompleted, fmt.Sprintf("it completed at %s", clock(job.GetFinishTime()))
		if job.GetRerun() {
			f.Text += ", after an interruption, and runs again"
		}
	case lifecycle.JobFailed.String():
		f.Code, f.Count = factJobFailed, int64(job.GetExitCode())
		f.Text = fmt.Sprintf("it failed at %s%s: %s", clock(job.GetFinishTime()), exitText(job.GetExitCode()), afterFailure(job))
	default:
		f.Code, f.Setting = factJobAborted, job.GetAbortReason()
		f.Text = fmt.Sprintf("it was aborted at %s: %s", clock(job.GetFinishTime()), abortText(job))
		if job.GetAcknowledged() {
			f.Text += "; it had reported its state as saved"
		}
	}
	return f
}

// afterFailure says whether the cookie of a failed job runs again.
func afterFailure(job *apipb.Job) string {
	if job.GetGivenUp() {
		return fmt.Sprintf("its cookie is given up (max_attempts %d)", job.GetMaxAttempts())
	}
	return "its cookie is rerun if the operation continues"
}

// exitText returns text with the exit code of a job; empty if the job has none, because it
// never started or a signal killed it.
func exitText(code int32) string {
	if code < 0 {
		return ""
	}
	return fmt.Sprintf(" with exit code %d", code)
}

// abortText says why a job was aborted. It blames a job for not stopping in time only if the job
// ran and was asked to stop.
func abortText(job *apipb.Job) string {
	why, reason := job.GetInterruption(), job.GetAbortReason()
	asked := why.GetReason() != "" && why.GetTimeoutMillis() > 0 && why.GetHeldUntil() == nil && job.GetPid() > 0 && !job.GetAcknowledged()
	switch {
	case reason == lifecycle.AbortPreemption.String() && asked:
		return "it was preempted but did not stop in time (preemption)"
	case reason == lifecycle.AbortPreemption.String():
		return "it was preempted (preemption)"
	case reason == lifecycle.AbortInterruptionTimeout.String() && asked:
		return "it was asked to stop but did not stop in time (interruption_timeout)"
	case reason == lifecycle.AbortInterruptionTimeout.String():
		return "it had to stop (interruption_timeout)"
	}
	return cmp.Or(abortTexts[reason], reason)
}

// abortTexts explains the abort reasons for which the text does not depend on the job.
var abortTexts = map[string]string{
	lifecycle.AbortNodeOffline.String():             "its node was silent for longer than its lease (node_offline)",
	lifecycle.AbortNodeResourceOvercommit.String():  "its node had fewer resources than its jobs hold (node_resource_overcommit)",
	lifecycle.AbortInterruptionUnsupported.String(): "it had to stop, but its task has neither input nor an interruption_signal (interruption_unsupported)",
	lifecycle.AbortUserRequest.String():             "a user requested it (user_request)",
}

// leaving says why a job has to stop or had to stop.
func leaving(job *apipb.Job, why *apipb.Interruption) *explainpb.Fact {
	f := &explainpb.Fact{
		Code: factJobStopping, Setting: cmp.Or(why.GetPreemption(), why.GetReason(), why.GetAbortReason()), Job: job.GetId(), Operation: job.GetOperationId(),
		Task: job.GetTask(), Node: job.GetNode(), Time: why.GetTime(), Until: why.GetDeadline(),
	}
	what := "was ordered to stop"
	switch {
	case why.GetPreemption() != "":
		f.Code, what = factJobPreempted, fmt.Sprintf("was preempted (%s)", why.GetPreemption())
	case why.GetReason() != "":
		f.Code, what = factJobInterrupted, fmt.Sprintf("was asked to stop (%s)", why.GetReason())
	}
	if why.GetHeldUntil() != nil && job.GetFinishTime() == nil {
		f.Text = fmt.Sprintf("it has been due to stop (%s) since %s; it is notified once other instances can replace it, and no later than %s", f.GetSetting(), clock(why.GetTime()), clock(why.GetHeldUntil()))
		return f
	}
	f.Text = fmt.Sprintf("it %s at %s", what, clock(why.GetTime()))
	if who := why.GetPreemptedForOperation(); who != "" {
		f.Text += " for operation " + who
	}
	if why.GetTimeoutMillis() > 0 && why.GetDeadline() != nil {
		stay := "may"
		if job.GetFinishTime() != nil {
			stay = "could"
		}
		f.Text += fmt.Sprintf(", and %s stay until %s", stay, clock(why.GetDeadline()))
	}
	return f
}

// addBeneficiary adds the operation and task for which a job was preempted.
func addBeneficiary(x *explainpb.Explanation, job *apipb.Job, why *apipb.Interruption) {
	if why.GetPreemptedForOperation() == "" {
		return
	}
	held := "its resources on node %s are reserved for a job of task %s of operation %s"
	if job.GetFinishTime() != nil {
		held = "its resources on node %s went to a job of task %s of operation %s"
	}
	tell(x, &explainpb.Fact{
		Code: factBeneficiary, Operation: why.GetPreemptedForOperation(), Task: why.GetPreemptedForTask(), Node: job.GetNode(), Setting: statepb.InterruptedByPreemption,
		Text: fmt.Sprintf(held, job.GetNode(), why.GetPreemptedForTask(), why.GetPreemptedForOperation()),
	})
}

// reserveFacts returns, by task, a fact about the memory that a job needs to start: the
// reserve of its processes, a part of its memory_limit, and the memory of its job proxy.
func reserveFacts(op *statepb.Operation) map[string]*explainpb.Fact {
	facts := map[string]*explainpb.Fact{}
	for _, task := range op.GetTasks() {
		reserve, limit := task.GetMemory().GetReserve(), describedTask(op, task.GetName()).GetMemoryLimit()
		if reserve == nil || limit == 0 {
			continue
		}
		from := "from its settings: nothing learned yet"
		switch n := task.GetMemory().GetSampleCount(); {
		case n == 1:
			from = "learned from 1 job"
		case n > 1:
			from = fmt.Sprintf("learned from %d jobs", n)
		case task.GetMemory().GetFromProfile():
			from = "learned from similar earlier operations"
		}
		facts[task.GetName()] = &explainpb.Fact{
			Code: factMemoryReserve, Task: task.GetName(), Resource: resource.Memory.String(), Setting: "memory_limit", Value: float64(reserve.GetUser()), Bound: float64(limit),
			Text: fmt.Sprintf("a job of task %s needs its memory reserve to start: %s for its processes, %.0f%% of its memory_limit of %s (%s), and %s for its job proxy",
				task.GetName(), resource.FormatSize(reserve.GetUser()), 100*float64(reserve.GetUser())/float64(limit), resource.FormatSize(limit), from,
				resource.FormatSize(reserve.GetProxy())),
		}
	}
	return facts
}

// addReserves adds the memory reserve of each task for which nodes have too little memory.
func addReserves(x *explainpb.Explanation, reserves map[string]*explainpb.Fact) {
	told := map[string]bool{}
	memory := resource.Memory.String()
	for _, t := range x.GetTasks() {
		nodes, f := t.GetNodes(), reserves[t.GetName()]
		if f != nil && !told[t.GetName()] && t.GetDedicatedMemory() == 0 && nodes.GetLackingBy()[memory]+nodes.GetTooSmallBy()[memory] > 0 {
			told[t.GetName()] = true
			tell(x, f)
		}
	}
}
