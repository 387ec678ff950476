package bench

import (
	"os"
	"slices"
	"testing"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/cmd/weir/internal/devcluster"
)

// cost is processor time, in the kernel and outside.
type cost struct {
	// replicas is that of all replicas, agents that of all agents, and jobs that of
	// supervisors, and of the jobs that have ended; nodes that of this process: of the nodes that it
	// simulates, and of the client.
	replicas, agents, jobs, nodes time.Duration
}

// since returns what was spent after before.
func (c cost) since(before cost) cost {
	return cost{c.replicas - before.replicas, c.agents - before.agents, c.jobs - before.jobs, c.nodes - before.nodes}
}

// plus adds two costs.
func (c cost) plus(more cost) cost {
	return cost{c.replicas + more.replicas, c.agents + more.agents, c.jobs + more.jobs, c.nodes + more.nodes}
}

// spent returns the processor time that replicas, agents and this process have taken so far.
func (c *cluster) spent(b *testing.B) (sum cost) {
	b.Helper()
	record, err := devcluster.Load(c.Dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range record.Members {
		if m.Kind == devcluster.Replica {
			sum.replicas += processorTime(b, m.Process.Pid)
		} else {
			own, all := c.figures(b, m).processor, processorTime(b, m.Process.Pid)+supervisors(b, m.Process.Pid)
			sum.agents, sum.jobs = sum.agents+own, sum.jobs+max(0, all-own)
		}
	}
	sum.nodes = processorTime(b, os.Getpid())
	return sum
}

// supervisors returns the time of the supervisors of an agent that have not ended, and of the jobs that they have run.
func supervisors(b *testing.B, agent int) (sum time.Duration) {
	b.Helper()
	for _, process := range children(b, agent) {
		sum += process.CPUUser + process.CPUSystem
	}
	return sum
}

// children returns the processes that a process has started.
func children(b *testing.B, parent int) []proctree.Process {
	b.Helper()
	all, err := proctree.All()
	if err != nil {
		b.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p proctree.Process) bool { return p.Parent != parent })
}

func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	process, err := proctree.Read(pid)
	if err != nil {
		b.Fatal(err)
	}
	return process.CPUUser + process.CPUSystem
}
