//go:build !plantedbugs

package agent

import (
	"weir/actors/agent/runner"
	"weir/messages/actorpb"
)

// ignoresTokens is true in builds that test whether weir chaos notices the fault.
const ignoresTokens = false

// arriving returns the plans to handle when a plan arrives: only that plan, except in builds with
// planted bugs.
func arriving(plan *actorpb.NodePlan) []*actorpb.NodePlan { return []*actorpb.NodePlan{plan} }

// remembering returns the job as it is. With planted bugs it may already have a spec.
func remembering(j *Job) *Job { return j }

// remember does nothing. With planted bugs it stores the spec.
func remember(*actorpb.JobSpec) {}

// another returns the spec as it is. With planted bugs it may change the id.
func another(spec runner.JobSpec) runner.JobSpec { return spec }
