package check

import (
	"weir/chaos/history"
	"weir/scheduling/lifecycle"
)

// steady checks invariant L5. No fault hits simulated nodes themselves, and nobody aborts their operations.
func steady(x *index, say report) {
	simulated := make(map[string]bool)
	for _, n := range x.Simulated {
		simulated[n.Name] = true
		if !n.Online {
			say("simulated node %s is not online at the end", n.Name)
		}
	}
	for i := range x.Operations {
		o := &x.Operations[i]
		for _, j := range o.Jobs {
			if own := j.Task == history.SimulatedTask; own != simulated[j.Node] {
				say("job %s of operation %s, task %s, was granted to node %s", j.ID, o.ID, j.Task, j.Node)
			}
		}
	}
	for _, j := range x.simulatedJobs() {
		if j.State != lifecycle.JobCompleted.String() && !lostWithNode(j) {
			say("job %s of node %s is %s (%s)", j.ID, j.Node, j.State, j.Reason)
		}
	}
}

// simulatedJobs returns the jobs of simulated nodes.
func (x *index) simulatedJobs() (jobs []history.Job) {
	for i := range x.Operations {
		for _, j := range x.Operations[i].Jobs {
			if j.Task == history.SimulatedTask {
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// lostWithNode reports whether a job ended because its node was lost.
func lostWithNode(j history.Job) bool {
	return j.State == lifecycle.JobAborted.String() && j.Reason == lifecycle.AbortNodeOffline.String()
}
