package engine

import (
	"fmt"
	"iter"
	"slices"

	"weir/scheduling"
	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// Await sets whether a node that takes no jobs is expected to reconnect, because it was in the cluster
// when the engine was made. Until the tree's node_reconnection_timeout is over, a job that fits on
// such a node does not count as one that fits nowhere.
func (e *Engine) Await(id scheduling.NodeID, awaited bool) error {
	n, err := e.cluster.knownNode(id)
	if err != nil {
		return fmt.Errorf("await node %s: %w", id, err)
	}
	if n.awaited != awaited {
		e.cluster.count(n, resource.Amounts.Sub)
		n.awaited = awaited
		e.cluster.count(n, resource.Amounts.Add)
		e.cluster.layout++
	}
	return nil
}

// alike are nodes that have the same resources and match the same filters.
type alike struct {
	allocation.Hosts
	takes []bool
	// awaited nodes take no jobs yet.
	awaited bool
}

// likeness is the key by which alike nodes are grouped.
type likeness struct {
	limits  resource.Amounts
	takes   string
	awaited bool
}

// classify groups the nodes that take jobs, or are awaited, by likeness.
func (cl *cluster) classify() {
	if cl.classified == cl.layout && cl.classEdits == cl.filters.edits {
		return
	}
	cl.classified, cl.classEdits = cl.layout, cl.filters.edits
	clear(cl.classes)
	cl.classes = cl.classes[:0]
	at := make(map[likeness]int)
	var takes []byte
	for _, n := range cl.list {
		if !n.known || !n.schedulable && !n.awaited {
			continue
		}
		takes = allocation.AppendTakes(takes[:0], n.takes)
		l := likeness{n.limits, string(takes), !n.schedulable}
		i, known := at[l]
		if !known {
			i = len(cl.classes)
			at[l] = i
			cl.classes = append(cl.classes, alike{allocation.Hosts{Limits: n.limits}, n.takes, !n.schedulable})
		}
		cl.classes[i].Nodes++
	}
}

// findRoom computes how many jobs of a gang fit on the nodes, if anything relevant has changed.
func (cl *cluster) findRoom(g *gang) {
	if g.layout == cl.layout {
		return
	}
	cl.classify()
	g.layout = cl.layout
	var jobs []allocation.Task
	g.needs(func(perJob resource.Amounts, n int64) {
		jobs = append(jobs, allocation.Task{Pending: n, PerJob: perJob})
	})
	g.fit = allocation.Together(jobs, cl.hostsOf(g, false))
	g.hope = g.fit
	if !g.fit.All() && slices.ContainsFunc(cl.classes, func(c alike) bool { return c.awaited }) {
		g.hope = allocation.Together(jobs, cl.hostsOf(g, true))
	}
}

// hostsOf yields the nodes that take jobs of a gang. If awaited is set, it also yields the nodes
// that are expected to take them.
func (cl *cluster) hostsOf(g *gang, awaited bool) iter.Seq[allocation.Hosts] {
	return func(yield func(allocation.Hosts) bool) {
		for i := range cl.classes {
			c := &cl.classes[i]
			if (awaited || !c.awaited) && g.operation.order.Matches(c.takes) && !yield(c.Hosts) {
				return
			}
		}
	}
}

// outOfReach reports whether a gang with enough waiting jobs could not start even in an empty tree.
// Until nodes are added, limits are raised or the gang needs less, it has no demand, no fair share
// and no turn.
func (cl *cluster) outOfReach(g *gang) bool {
	missing := g.missing()
	if missing == 0 || g.waiting() < missing {
		return false
	}
	return !cl.hopeFor(g).All() || g.operation.beyondLimits(g.together())
}

// hopeFor returns how many of the missing jobs of a gang fit together on the nodes that take jobs,
// if these nodes are empty. In a new engine, awaited nodes count too.
func (cl *cluster) hopeFor(g *gang) allocation.Fit {
	cl.findRoom(g)
	if cl.moment.connected {
		return g.fit
	}
	return g.hope
}

// beyondLimits reports whether the limits set for an operation, or above it, are less than what jobs
// that start together need, even if nothing else is used.
func (e *element) beyondLimits(together resource.Amounts) bool {
	for ; e != nil; e = e.above {
		if !together.Fits(e.limits) {
			return true
		}
	}
	return false
}

// reach computes whether some empty node can hold a job of a task, if anything relevant has changed.
func (cl *cluster) reach(op *operation, t *task) {
	if t.layout == cl.layout {
		return
	}
	cl.classify()
	t.layout, t.fits, t.hopes = cl.layout, false, false
	for i := range cl.classes {
		if c := &cl.classes[i]; t.perJob.Fits(c.Limits) && op.order.Matches(c.takes) {
			t.fits, t.hopes = t.fits || !c.awaited, t.hopes || c.awaited
		}
	}
}

// waitsForNodes reports whether a new engine still awaits all nodes that can hold a job of a
// task.
func (cl *cluster) waitsForNodes(op *operation, t *task) bool {
	cl.reach(op, t)
	return !t.fits && t.hopes && !cl.moment.connected
}

// seekReach finds, for an update, which gangs and which jobs are out of reach.
func (u *update) seekReach() {
	for _, op := range u.tree.operations {
		for i := range op.tasks {
			t := &op.tasks[i]
			waits := u.cluster.waitsForNodes(op, t)
			if out := !t.fits && !waits || op.beyondLimits(t.perJob); out != t.out {
				t.out = out
				op.order.SetOut(t.TaskID, out)
				u.moment.age++
			}
		}
	}
	for _, g := range u.gangs.all {
		if out := u.cluster.outOfReach(g); out != g.out {
			g.out = out
			u.moment.age++
		}
	}
}

// out reports whether the jobs of a task do not count as demand because their gang is out of reach.
func (op *operation) out(task scheduling.TaskName) bool {
	if len(op.gangs) == 0 {
		return false
	}
	g := op.gang(task)
	return g != nil && g.out
}
