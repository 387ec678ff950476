package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/lifecycle"
)

// startAllocations commits grants of jobs to nodes. Each grant was planned on an older state and is
// checked by itself: if the state has changed since, only the affected grants are refused.
func (c jobChange) startAllocations(m *commandpb.StartAllocations) *refusal {
	results := make([]*commandpb.GrantResult, len(m.GetGrants()))
	var started []*statepb.Allocation
	time := c.timestamp()
	for i, g := range m.GetGrants() {
		switch {
		case g.GetAllOrNone() && results[i] == nil:
			started = append(started, c.grantAll(m.GetGrants(), i, results, time)...)
		case !g.GetAllOrNone():
			a, refused := c.grant(g, time)
			results[i] = grantResult(g, a, refused)
			if refused == nil {
				started = append(started, a)
			}
		}
	}
	for i, g := range m.GetGrants() {
		if results[i].GetRefusal() == "" {
			c.meet(g)
		}
	}
	c.result.Value = &commandpb.Result_StartAllocations{StartAllocations: &commandpb.StartAllocationsResult{Grants: results}}
	if len(started) > 0 {
		c.emit(AllocationsStarted{Allocations: started})
	}
	c.tellDemand()
	return nil
}

func grantResult(g *commandpb.Grant, a *statepb.Allocation, refused *refusal) *commandpb.GrantResult {
	if refused != nil {
		return &commandpb.GrantResult{JobId: g.GetJobId(), Refusal: refused.code, Message: refused.message}
	}
	return &commandpb.GrantResult{JobId: g.GetJobId(), Cookie: a.GetCookie(), Attempt: a.GetAttempt(), Ports: a.GetPorts()}
}

// grantAll carries out the all-or-none grants that have the same operation and task as
// grants[first], which is the first such grant. If one of them is refused, all are refused, and the
// ones already carried out are undone.
func (c jobChange) grantAll(grants []*commandpb.Grant, first int, results []*commandpb.GrantResult, time *timestamppb.Timestamp) []*statepb.Allocation {
	var together []int
	for i := first; i < len(grants); i++ {
		if g := grants[i]; g.GetAllOrNone() && g.GetOperationId() == grants[first].GetOperationId() && g.GetTask() == grants[first].GetTask() {
			together = append(together, i)
		}
	}
	started := make([]*statepb.Allocation, 0, len(together))
	for n, i := range together {
		a, refused := c.grant(grants[i], time)
		results[i] = grantResult(grants[i], a, refused)
		if refused == nil {
			started = append(started, a)
			continue
		}
		for _, other := range slices.Concat(together[:n], together[n+1:]) {
			results[other] = grantResult(grants[other], nil, refuse(CodeAllOrNone,
				"%s: job %q, which is granted with it or not at all, was refused: %s", grantSubject{grants[other]}, grants[i].GetJobId(), refused.message))
		}
		for _, a := range slices.Backward(started) {
			c.takeBack(a)
		}
		return nil
	}
	return started
}

// takeBack undoes a grant of this command; grants are undone in reverse order.
func (c jobChange) takeBack(a *statepb.Allocation) {
	o := c.operations[scheduling.OperationID(a.GetOperationId())]
	i := o.taskIndex[scheduling.TaskName(a.GetTask())]
	t, w, cookie := o.record.GetTasks()[i], &o.tasks[i], scheduling.Cookie(a.GetCookie())
	c.release(o, a)
	move(t, "take job back", (*lifecycle.Counters).TakeBack)
	w.pending.add(groupOf(t, cookie), cookie)
	if w.gang.exists() && a.GetGangRank() >= 0 {
		w.gang.free.Add(scheduling.Cookie(a.GetGangRank()))
	}
}

// grant gives the lowest pending cookie of a task to a node.
func (c jobChange) grant(g *commandpb.Grant, time *timestamppb.Timestamp) (*statepb.Allocation, *refusal) {
	what := grantSubject{g}
	o, task, refused := c.grantable(what, g)
	if refused != nil {
		return nil, refused
	}
	n, refused := c.room(what, g)
	if refused != nil {
		return nil, refused
	}
	if g.GetTree() != "" && g.GetTree() != n.record.GetTree() {
		return nil, refuse(CodeNotAdmitted, "%s: pool tree %q has planned it, but the node belongs to tree %q", what, g.GetTree(), n.record.GetTree())
	}
	i := o.treeIndex(scheduling.TreeName(n.record.GetTree()))
	if i < 0 || !o.record.GetTrees()[i].GetAdmitted() {
		return nil, refuse(CodeNotAdmitted, "%s: the node belongs to pool tree %q, in which the operation may not run", what, n.record.GetTree())
	}
	if o.offered(task, g.GetDedicatedMemory()) == 0 {
		return nil, o.refuseNoPending(what, task, g)
	}
	ports, refused := n.grantPorts(what, int(o.record.GetSpec().GetTasks()[task].GetPortCount()))
	if refused != nil {
		return nil, refused
	}
	editJobs(c.State, o)
	cookie, _ := o.tasks[task].pending.pop(g.GetDedicatedMemory())
	record := o.record.GetTasks()[task]
	pool, _ := c.trees[scheduling.TreeName(n.record.GetTree())].pools.Pool(scheduling.PoolName(o.record.GetTrees()[i].GetPool()))
	move(record, "start job", (*lifecycle.Counters).Start)
	a := &statepb.Allocation{
		JobId:           g.GetJobId(),
		OperationId:     g.GetOperationId(),
		Task:            g.GetTask(),
		Cookie:          int32(cookie),
		Node:            g.GetNode(),
		NodeIncarnation: g.GetNodeIncarnation(),
		Resources:       g.GetResources(),
		GrantTerm:       c.term.GetTerm(),
		GrantIndex:      c.index,
		StartTime:       time,
		Attempt:         record.GetAttempts()[int32(cookie)],
		Ports:           ports,
		Pool:            string(pool.Name),
		PoolId:          uint64(pool.ID),
		Reserve:         reserveOf(record, cookie).Holding(g.GetResources().GetMemory()),
	}
	o.tasks[task].giveRank(record, a)
	c.allocations.put(a)
	o.allocate(a)
	n.hold(a)
	c.touch(o, task, g.GetDedicatedMemory())
	return a, nil
}

// refuseNoPending says why no job is pending for a grant.
func (o *operation) refuseNoPending(what grantSubject, task int, g *commandpb.Grant) *refusal {
	switch gang := &o.tasks[task].gang; {
	case gang.stale > 0:
		return refuse(CodeGangRestarting, "%s: the gang restarts when the jobs of its previous incarnation have ended: %d left", what, gang.stale)
	case gang.done():
		return refuse(CodeNoPendingJob, "%s: all %d ranks of the gang have completed", what, gang.size)
	}
	if m := g.GetDedicatedMemory(); m != 0 {
		return refuse(CodeNoPendingJob, "%s: no pending job of task %q has a reserve of its own of %d bytes", what, g.GetTask(), m)
	}
	return refuse(CodeNoPendingJob, "%s: every job of task %q already has an allocation, has completed or was given up", what, g.GetTask())
}

// grantSubject names a grant in errors. It is a value that is formatted only when needed,
// so that accepted grants do not pay for it.
type grantSubject struct{ grant *commandpb.Grant }

// String implements fmt.Stringer.
func (s grantSubject) String() string {
	return fmt.Sprintf("start job %q of operation %q on node %q", s.grant.GetJobId(), s.grant.GetOperationId(), s.grant.GetNode())
}

// grantable returns the operation and the task of a grant.
func (c jobChange) grantable(what grantSubject, g *commandpb.Grant) (*operation, int, *refusal) {
	if g.GetJobId() == "" {
		return nil, 0, refuse(CodeInvalidCommand, "%s: the job has no id", what)
	}
	if a, ok := c.allocations.of(scheduling.JobID(g.GetJobId())); ok {
		return nil, 0, refuse(CodeDuplicateJob, "%s: node %q already runs a job with this id for operation %q", what, a.GetNode(), a.GetOperationId())
	}
	o, ok := c.operations[scheduling.OperationID(g.GetOperationId())]
	switch {
	case !ok:
		return nil, 0, refuse(CodeUnknownOperation, "%s: no such operation", what)
	case o.state != lifecycle.Running:
		return nil, 0, refuse(CodeInvalidOperationState, "%s: the operation is %s, not running", what, o.state)
	case o.record.GetSuspended():
		return nil, 0, refuse(CodeOperationSuspended, "%s: the operation is suspended", what)
	}
	task, ok := o.taskIndex[scheduling.TaskName(g.GetTask())]
	if !ok {
		return nil, 0, refuse(CodeUnknownTask, "%s: the operation has no task %q", what, g.GetTask())
	}
	return o, task, nil
}

// room returns the node of a grant, if the node is usable and has enough free resources.
func (c jobChange) room(what grantSubject, g *commandpb.Grant) (*node, *refusal) {
	n, ok := c.nodes[scheduling.NodeID(g.GetNode())]
	switch {
	case !ok:
		return nil, refuse(CodeUnknownNode, "%s: no such node has registered", what)
	case n.record.GetIncarnation() != g.GetNodeIncarnation():
		return nil, refuse(CodeStaleIncarnation, "%s: incarnation %d of the node requested, but the current one is %d",
			what, g.GetNodeIncarnation(), n.record.GetIncarnation())
	case n.record.GetState() != statepb.NodeOnline:
		return nil, refuse(CodeNodeOffline, "%s: the node is %s", what, n.record.GetState())
	case n.drain() != nil:
		return nil, refuse(CodeNodeDraining, "%s: user %q drains the node", what, n.drain().GetUser())
	}
	if err := checkResources(g.GetResources()); err != nil {
		return nil, refuse(CodeInvalidCommand, "%s: %v", what, err)
	}
	wanted, free := g.GetResources().Amounts(), n.free()
	if kind, lacking := wanted.Lacking(free); lacking {
		return nil, refuse(CodeNodeFull, "%s: resource %s: %d wanted, %d of %d left", what, kind,
			wanted.Of(kind), free.Of(kind), n.record.GetResources().Amounts().Of(kind))
	}
	return n, nil
}

// move changes a task's counters by one step.
func move(t *statepb.Task, what string, step func(*lifecycle.Counters) error) {
	counters := counted(t.GetCounters())
	if err := step(&counters); err != nil {
		panic(fmt.Sprintf("%s of task %q: the state does not add up: %v", what, t.GetName(), err))
	}
	r := t.GetCounters()
	r.Total, r.Pending, r.Running, r.Completed = counters.Total, counters.Pending, counters.Running, counters.Completed
	r.Failed, r.Aborted, r.Restarted, r.GivenUp = counters.Failed, counters.Aborted, counters.Restarted, counters.GivenUp
}

// counted returns the counters of a record.
func counted(r *statepb.JobCounters) lifecycle.Counters {
	return lifecycle.Counters{
		Total: r.GetTotal(), Pending: r.GetPending(), Running: r.GetRunning(), Completed: r.GetCompleted(),
		Failed: r.GetFailed(), Aborted: r.GetAborted(), Restarted: r.GetRestarted(), GivenUp: r.GetGivenUp(),
	}
}

// demand is a task group whose number of pending jobs has changed.
type demand struct {
	operation *operation
	task      int
	group     int64
}

// touch records that the number of pending jobs of a group, or their resources, have changed.
func (c *change) touch(o *operation, task int, group int64) {
	d := demand{operation: o, task: task, group: group}
	if c.touched[d] {
		return
	}
	made(&c.touched)[d] = true
	c.demands = append(c.demands, d)
}

// touchAll calls touch for each group of a task.
func (c *change) touchAll(o *operation, task int) {
	for _, group := range o.tasks[task].pending.groups() {
		c.touch(o, task, group)
	}
}

// tellDemand emits the demand of all groups touched since the last call, each once. It
// leaves out operations that do not run.
func (c *change) tellDemand() {
	for _, d := range c.demands {
		if o := d.operation; o.state == lifecycle.Running {
			t := o.record.GetTasks()[d.task]
			c.emit(DemandChanged{ID: o.id(), Task: scheduling.TaskName(t.GetName()), Group: d.group, Pending: o.demand(d.task, d.group)})
		}
	}
	c.touched, c.demands = nil, nil
}

// maxPort is the last TCP port.
const maxPort = 65535

// checkPorts returns an error if the port range of a node is invalid.
func checkPorts(n *statepb.Node) error {
	first, count := int64(n.GetFirstPort()), int64(n.GetPortCount())
	switch {
	case count == 0 && first == 0:
	case count < 1 || first < 1 || first+count-1 > maxPort:
		return fmt.Errorf("%d ports from %d on: ports must be from 1 to %d", count, first, maxPort)
	}
	return nil
}

// freePorts returns the given number of free ports of the node, and the port at which the next
// search begins. It searches round robin, so that a port is reused as late as possible.
func (n *node) freePorts(count int) (ports []int32, next int32, ok bool) {
	first, total := n.record.GetFirstPort(), n.record.GetPortCount()
	if count > int(total) {
		return nil, 0, false
	}
	begin := n.record.GetNextPort() - first
	if begin < 0 || begin >= total {
		begin = 0
	}
	ports = make([]int32, 0, count)
	for i := int32(0); i < total && len(ports) < count; i++ {
		// The node's port range may have changed since the held ports were assigned.
		port := first + (begin+i)%total
		if n.ports[port] == "" {
			ports = append(ports, port)
		}
	}
	if len(ports) < count {
		return nil, 0, false
	}
	return ports, first + (ports[count-1]-first+1)%total, true
}

// grantPorts assigns ports to a grant; it is the last check that may refuse it.
func (n *node) grantPorts(what grantSubject, count int) ([]int32, *refusal) {
	if count == 0 {
		return nil, nil
	}
	ports, next, ok := n.freePorts(count)
	if !ok {
		return nil, refuse(CodeNoPorts, "%s: task %q needs %d TCP ports, but too few are free: the node has %d, and its jobs hold %d "+
			"(option --ports of its agent)", what, what.grant.GetTask(), count, n.record.GetPortCount(), len(n.ports))
	}
	record := shallow(n.record)
	record.NextPort = next
	n.record = record
	return ports, nil
}

// verifyPorts checks that each port of a node belongs to one job.
func (n *node) verifyPorts() error {
	var b breach
	held := make(map[int32]scheduling.JobID)
	for _, a := range byGrant(n.allocations) {
		for _, port := range a.GetPorts() {
			other, taken := held[port]
			b.when(taken || port < 1 || port > maxPort, "job %q has port %d, which is out of range or also held by job %q", a.GetJobId(), port, other)
			held[port] = scheduling.JobID(a.GetJobId())
		}
	}
	b.when(!maps.Equal(held, n.ports), "jobs have ports %v, but counted are %v", held, n.ports)
	return cmp.Or(b.err, checkPorts(n.record))
}
