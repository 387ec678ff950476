package agent

import (
	"testing"
	"time"

	"weir/actors/agent/runner"
	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// holding grants a job with so many mebibytes.
func holding(job string, reserve int64) planOption {
	return func(p *actorpb.NodePlan) {
		granted(job, 9)(p)
		p.Start[len(p.Start)-1].Resources = &statepb.Resources{Memory: reserve << 20}
	}
}

// uses has a job use so many mebibytes, and waits until the agent has seen it.
func (w *world) uses(job string, memory int64) {
	w.t.Helper()
	r := w.run(job)
	r.events <- runner.Sample{JobID: job, Memory: memory << 20}
	w.advance(memoryPeriod)
}

func TestAgentStopsTheLargestOverdraftOnAFullNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, holding("within", 400), holding("above", 200), holding("far", 200)))
		w.uses("within", 400)
		w.uses("far", 350)
		w.advance(10 * time.Minute)
		w.want("")
		w.uses("above", 300)
		w.want("far:aborted:resource_overdraft")
		if stops := w.stops("far"); len(stops) != 1 || stops[0] != "resource_overdraft 0s" {
			t.Errorf("stops %v, want one at once", stops)
		}
		e := w.result("far").GetJob().GetError()
		want := map[string]string{"resource": "memory", "usage": "367001600", "reserve": "209715200", "node_usage": "1101004800", "node_memory": "1073741824"}
		for name, value := range want {
			if e.GetAttributes()[name] != value {
				t.Errorf("attribute %s is %q, want %q; the message is %q", name, e.GetAttributes()[name], value, e.GetMessage())
			}
		}
		if n := w.logs.count("job stopped: node out of memory"); n != 1 {
			t.Errorf("%d log lines", n)
		}
		w.advance(memoryPeriod)
		stats := w.agent.Stats()
		if stats.MemoryReserved != 600<<20 || stats.MemoryLimit != 1<<30 {
			t.Errorf("%d reserved of %d", stats.MemoryReserved, stats.MemoryLimit)
		}
	})
}

func TestAgentStopsTheYoungestOfAnOvercommittedNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, holding("old", 600)))
		w.advance(time.Second)
		w.send(plan(3, 8, holding("young", 600)))
		w.uses("old", 550)
		w.uses("young", 550)
		w.advance(w.cfg.MemoryOverdraftTimeout - time.Second)
		w.want("")
		w.advance(2 * time.Second)
		w.want("young:aborted:node_resource_overcommit")
	})
}

func TestAgentRelievesTheMachine(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, holding("above", 100), holding("within", 200)))
		w.uses("above", 150)
		w.uses("within", 150)
		w.advance(time.Minute)
		w.want("")
		w.left.Store(1 << 20)
		w.advance(memoryPeriod * 2)
		w.want("above:aborted:resource_overdraft")
		if why := w.result("above").GetJob().GetError().GetAttributes()["pressure"]; why == "" {
			t.Error("the error does not say that the machine was short of memory")
		}
	})
}
