//go:build !plantedbugs

package agent

import (
	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

// ignoresTokens is true in builds that find out whether weir chaos notices.
const ignoresTokens = false

// arriving returns the plans that a plan from the network makes arrive.
func arriving(plan *actorpb.NodePlan) []*actorpb.NodePlan { return []*actorpb.NodePlan{plan} }

// remembering returns a job that is new, or goes on with the spec that an agent may
// remember.
func remembering(j *Job) *Job { return j }

// remember lets an agent remember a spec.
func remember(*actorpb.JobSpec) {}

// another returns what the runner is to start.
func another(spec runner.JobSpec) runner.JobSpec { return spec }
