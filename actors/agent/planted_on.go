//go:build plantedbugs

package agent

import (
	"fmt"
	"os"
	"sync"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

// A build with planted bugs simulates a network that delivers a leader's plans again after the next
// leader's first one. That alone is no bug: an agent must withstand it. With ignore_token the agent
// does not withstand it: it follows orders whatever their token, even for jobs that it has had,
// with the specs that it remembers.
var (
	replays       = os.Getenv("WEIR_PLANTED_BUG") == "ignore_token" || os.Getenv("WEIR_PLANTED_BUG") == "replay_only"
	ignoresTokens = os.Getenv("WEIR_PLANTED_BUG") == "ignore_token"
	late          network
)

// network is what one agent process has received.
type network struct {
	mu    sync.Mutex
	term  uint64
	plans []*actorpb.NodePlan
	specs map[string]*actorpb.JobSpec
	// starts counts the starts of each job.
	starts map[string]int
}

// mostPlans is how many of a leader's latest plans are kept.
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

// another returns the spec with a new id, and so a new folder, if the job is started again. The
// runner would reject it otherwise.
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
