package top

import (
	"cmp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/cmd/weir/internal/figures"
	"weir/messages/apipb"
)

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

func detailOf(op *apipb.Operation) Detail {
	out := Detail{Operation: operationRow(op), Type: op.GetType()}
	for _, t := range op.GetTasks() {
		out.Tasks = append(out.Tasks, Task{
			Name: t.GetName(), Progress: progress(t), Resources: amountsOf(t.GetJobResources()),
			Reserve: t.GetMemory().GetReserve().GetTotal(),
		})
	}
	for _, alert := range op.GetAlerts() {
		out.Alerts = append(out.Alerts, strings.TrimSpace(alert.GetMessage()+": "+alert.GetAdvice()))
	}
	return out
}

func progress(p *apipb.TaskProgress) Progress {
	return Progress{Total: p.GetTotal(), Pending: p.GetPending(), Running: p.GetRunning(), Completed: p.GetCompleted(), Failed: p.GetFailed(), Aborted: p.GetAborted()}
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

func nodeRow(n *apipb.Node) Node {
	row := Node{
		ID: n.GetId(), State: n.GetState(), Host: n.GetHost(), Tree: n.GetTree(), Tags: strings.Join(n.GetTags(), " "), Version: n.GetVersion(), Caveat: n.GetCaveat(),
		Jobs: n.GetJobs(), Heartbeat: at(n.GetLastHeartbeat()), CPU: n.GetUsage().GetCpu(), CPUTotal: n.GetResources().GetCpu(),
		Memory: float64(n.GetUsage().GetMemory()), MemoryTotal: float64(n.GetResources().GetMemory()), MemoryUsed: float64(n.GetMemoryUsed()),
		GPU: n.GetUsage().GetGpu(), GPUTotal: n.GetResources().GetGpu(), Drained: n.GetDrain() != nil,
	}
	if d := n.GetDrain(); d != nil {
		row.Drain = strings.TrimSuffix("drained by "+d.GetUser()+": "+d.GetReason(), ": ")
	}
	return row
}

// at returns a time, or none.
func at(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func amountsOf(r *apipb.Resources) string {
	if r == nil {
		return ""
	}
	return figures.Amounts(r)
}
