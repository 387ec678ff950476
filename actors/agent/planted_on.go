//go:build plantedbugs

package agent

import (
	"fmt"
	"os"
	"sync"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

// A build with planted bugs has a network that delivers the plans of a leader once
// more, after the next leader's first one. That is no bug: an agent must stand it. With
// ignore_token it does not: it follows orders whatever their token, also for jobs
// that it has had, with the specs that it remembers.
var (
	replays       = os.Getenv("WEIR_PLANTED_BUG") == "ignore_token" || os.Getenv("WEIR_PLANTED_BUG") == "replay_only"
	ignoresTokens = os.Getenv("WEIR_PLANTED_BUG") == "ignore_token"
	late          network
)

// network is what one agent process has got from it.
type network struct {
	mu    sync.Mutex
	term  uint64
	plans []*actorpb.NodePlan
	specs map[string]*actorpb.JobSpec
	// starts counts those of each job.
	starts map[string]int
}

// mostPlans is how many plans of a leader, the latest, the network keeps.
const mostPlans = 10

func arriving(plan *actorpb.NodePlan) []*actorpb.NodePlan {
	late.mu.Lock()
	defer late.mu.Unlock()
	list := []*actorpb.NodePlan{plan}
	if term := plan.GetToken().GetTerm(); term > late.term {
		list = append(list, late.plans...)
		late.term, late.plans = term, nil
	}
	if replays && len(plan.GetStart()) > 0 {
		late.plans = append(late.plans, plan)
		late.plans = late.plans[max(0, len(late.plans)-mostPlans):]
	}
	return list
}

func remembering(j *Job) *Job {
	late.mu.Lock()
	defer late.mu.Unlock()
	if spec := late.specs[j.start.GetJobId()]; spec != nil && ignoresTokens {
		j.spec, j.phase = spec, Starting
	}
	return j
}

func remember(spec *actorpb.JobSpec) {
	late.mu.Lock()
	defer late.mu.Unlock()
	if late.specs == nil {
		late.specs = make(map[string]*actorpb.JobSpec)
	}
	late.specs[spec.GetJobId()] = spec
}

// another gives a job that is started again a folder of its own: the runner would
// refuse it otherwise.
func another(spec runner.JobSpec) runner.JobSpec {
	late.mu.Lock()
	defer late.mu.Unlock()
	if late.starts == nil {
		late.starts = make(map[string]int)
	}
	if late.starts[spec.ID]++; late.starts[spec.ID] > 1 && ignoresTokens {
		spec.ID = fmt.Sprintf("%s-%d", spec.ID, late.starts[spec.ID])
	}
	return spec
}
