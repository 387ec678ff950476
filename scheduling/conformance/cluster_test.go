package conformance_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// settled is how long a cluster is watched until nothing is expected to change: all
// timeouts and backoffs of the cases have passed many times.
const settled = 5 * time.Minute

// task is the one that all operations have.
const task = scheduling.TaskName("jobs")

// cluster is a production engine, with jobs that end when they are told to go.
type cluster struct {
	*engine.Engine
	now        time.Time
	options    document
	pools      []scenarioPool
	nodes      []scheduling.NodeID
	operations map[scheduling.OperationID]*wish
	jobs       int
}

// wish is how many jobs of an operation there could be, and how many there are.
type wish struct {
	engine.Operation
	total, running int64
	perJob         resource.Amounts
}

// cluster makes the one of a case, with these settings besides.
func (s *scenario) cluster(more document) (*cluster, error) {
	e, err := engine.New(engine.Default())
	if err != nil {
		return nil, err
	}
	options, _, _, err := s.Config.split(s.Version)
	if err == nil {
		err = only(ofTrees, options)
	}
	if err != nil {
		return nil, err
	}
	c := &cluster{Engine: e, now: epoch, options: options, operations: map[scheduling.OperationID]*wish{}}
	maps.Copy(c.options, more)
	// The limits of filters hold from the start.
	c.options["node_reconnection_timeout"] = "0s"
	for _, p := range s.Pools {
		p.Options = durations(p.Options)
		c.pools = append(c.pools, p)
	}
	for _, op := range s.Operations {
		name := cmp.Or(op.Pool, "default")
		if !slices.ContainsFunc(c.pools, func(p scenarioPool) bool { return p.ID == name }) {
			c.pools = append(c.pools, scenarioPool{ID: name, Parent: string(scheduling.RootPool), Options: document{}})
		}
	}
	if err := c.setTree(); err != nil {
		return nil, err
	}
	if err := c.setNodes(s.Nodes, s.Operations); err != nil {
		return nil, err
	}
	for _, op := range s.Operations {
		perJob, err := op.Resources.exact()
		if err != nil {
			return nil, err
		}
		if err := c.add(op.ID, cmp.Or(op.Pool, "default"), op.Allocations, perJob, nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) setTree() error {
	options, err := readTree(c.options)
	if err != nil {
		return err
	}
	var pools []pooltree.Pool
	for _, p := range c.pools {
		read, err := pooltree.ReadPoolOptions(p.Options)
		if err != nil {
			return fmt.Errorf("pool %q: %w", p.ID, err)
		}
		pools = append(pools, pooltree.Pool{Name: scheduling.PoolName(p.ID), Parent: scheduling.PoolName(p.Parent), Options: read})
	}
	tree, err := pooltree.FromPools(options, pools)
	if err != nil {
		return err
	}
	return c.SetTree(tree)
}

// setNodes adds the nodes, which have their names as tags; where a case has none, one
// that has room for all.
func (c *cluster) setNodes(nodes []nodeCase, operations []scenarioOperation) error {
	if nodes == nil {
		all := map[string]float64{}
		for _, op := range operations {
			for name, amount := range op.Resources {
				all[name] += amount * float64(op.Allocations)
			}
		}
		nodes = []nodeCase{{Resources: all}}
	}
	for _, n := range nodes {
		have, err := n.Resources.exact()
		if err != nil {
			return err
		}
		for range n.count() {
			id := scheduling.NodeID(fmt.Sprint("node", len(c.nodes)))
			c.nodes = append(c.nodes, id)
			if err := c.SetNode(id, have, true, append([]string{string(id)}, n.Tags...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// add has an operation want so many jobs.
func (c *cluster) add(id, pool string, jobs int64, perJob resource.Amounts, options document) error {
	read, err := pooltree.ReadOperationOptions(options)
	if err != nil {
		return err
	}
	c.now = c.now.Add(time.Second)
	op := engine.Operation{ID: scheduling.OperationID(id), Pool: scheduling.PoolName(pool), Started: c.now, Enabled: true}.With(read)
	if err := c.AddOperation(op); err != nil {
		return err
	}
	c.operations[op.ID] = &wish{Operation: op, total: jobs, perJob: perJob}
	return c.demand(op.ID)
}

func (c *cluster) demand(id scheduling.OperationID) error {
	w := c.operations[id]
	return c.SetDemand(id, task, 0, w.total-w.running, w.perJob)
}

// limit sets the limits of all operations.
func (c *cluster) limit(limits document) error {
	for _, id := range slices.Sorted(maps.Keys(c.operations)) {
		read, err := pooltree.ReadOperationOptions(document{"resource_limits": limits})
		if err != nil {
			return err
		}
		w := c.operations[id]
		w.Operation = w.With(read)
		if err := c.SetOperation(w.Operation); err != nil {
			return err
		}
	}
	return nil
}

// run has a job of an operation run on a node.
func (c *cluster) run(id scheduling.OperationID, node scheduling.NodeID) error {
	w := c.operations[id]
	c.jobs++
	w.running++
	c.now = c.now.Add(time.Second)
	a := engine.Allocation{
		Job: scheduling.JobID(fmt.Sprintf("job%05d", c.jobs)), Operation: id, Task: task, Node: node, Resources: w.perJob, Started: c.now,
	}
	if err := c.AddAllocation(a); err != nil {
		return err
	}
	return c.demand(id)
}

func (c *cluster) update() error {
	_, err := c.Tick(c.now)
	return err
}

// settle lets time pass until nothing changes any more.
func (c *cluster) settle() error {
	for until := c.now.Add(settled); c.now.Before(until); {
		c.now = c.now.Add(time.Second)
		if err := c.update(); err != nil {
			return err
		}
		plan := c.Heartbeat(c.now, c.nodes)
		for _, p := range plan.Preempts {
			if err := c.preempt(p); err != nil {
				return err
			}
		}
		for _, start := range plan.Starts {
			c.jobs++
			if err := c.Commit(start.Ticket, scheduling.JobID(fmt.Sprintf("job%05d", c.jobs)), c.now); err != nil {
				return err
			}
			c.operations[start.Operation].running++
		}
	}
	return nil
}

// preempt has a job go at once.
func (c *cluster) preempt(p engine.Preempt) error {
	if err := c.Leave(p.Job, engine.LeaveOrder{Ordered: c.now, Deadline: c.now, Kind: p.Kind, For: p.For}); err != nil {
		return err
	}
	if err := c.RemoveAllocation(p.Job); err != nil {
		return err
	}
	c.operations[p.Operation].running--
	return c.demand(p.Operation)
}

// running is the number of all jobs.
func (c *cluster) running() int { return len(c.Holdings()) }

// count counts the jobs of an operation by their levels.
func (c *cluster) count(id scheduling.OperationID, counts func(preemption.Level) bool) int {
	n := 0
	for _, h := range c.Holdings() {
		if h.Operation == id && counts(h.Level) {
			n++
		}
	}
	return n
}

func (c *cluster) usage(id scheduling.OperationID) resource.Amounts {
	var sum resource.Amounts
	for _, h := range c.Holdings() {
		if h.Operation == id {
			sum = sum.Add(h.Resources)
		}
	}
	return sum
}

// on returns the jobs of an operation on a node, sorted.
func (c *cluster) on(id scheduling.OperationID, node scheduling.NodeID) []scheduling.JobID {
	var jobs []scheduling.JobID
	for _, h := range c.Holdings() {
		if h.Operation == id && h.Node == node {
			jobs = append(jobs, h.Job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// first is the job of an operation on a node that started first.
func (c *cluster) first(id scheduling.OperationID, node scheduling.NodeID) scheduling.JobID {
	jobs := c.on(id, node)
	if len(jobs) == 0 {
		return ""
	}
	return jobs[0]
}
