// Package whatif computes the fair shares of a described cluster, as it is and as it would be
// after changes.
//
// It passes the description to the engine that schedules real clusters, and reads the result.
// The package is pure.
package whatif

import (
	"fmt"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// Cluster is everything that fair shares in a pool tree depend on.
type Cluster struct {
	Pools pooltree.Tree
	// Nodes are the nodes of the tree that may run jobs.
	Nodes []Node
	// Operations are the running operations.
	Operations []Operation
	// Volumes are what pools with integral guarantees have accumulated, as of At.
	Volumes []engine.PoolVolume
	At      time.Time
}

// Node is a group of alike machines.
type Node struct {
	// Name is for people. It is empty for nodes that are only counted.
	Name      string
	Count     int64
	Resources resource.Amounts
	// Tags are what filters of pools and operations match.
	Tags []string
}

// Operation is an operation that runs.
type Operation struct {
	ID   scheduling.OperationID
	Pool scheduling.PoolName
	// Options are the options in force in this tree.
	Options pooltree.OperationOptions
	// Usage is what its jobs hold.
	Usage resource.Amounts
	// Tasks are jobs that could start.
	Tasks []Task
	// Idle operations start no jobs, because they are suspended, or about to end.
	Idle bool
	// Gang operations are useful only as a whole.
	Gang bool
	// Started orders the operations of FIFO pools.
	Started time.Time
}

// Task is a number of alike jobs that wait.
type Task struct {
	Pending int64
	PerJob  resource.Amounts
}

// Total is what all nodes have.
func (c Cluster) Total() resource.Amounts {
	var total resource.Amounts
	for _, n := range c.Nodes {
		total = total.Add(n.Resources.Times(n.Count))
	}
	return total
}

// id names a node of a group.
func (n Node) id(group int, i int64) scheduling.NodeID {
	return scheduling.NodeID(fmt.Sprintf("%d/%d", group, i))
}

// maxNodes is the maximum number of nodes of a description.
const maxNodes = 1_000_000

// engine returns an engine that has the cluster.
func (c Cluster) engine() (*engine.Engine, error) {
	e, err := engine.New(engine.Default())
	if err != nil {
		return nil, err
	}
	if err := e.SetTree(c.Pools); err != nil {
		return nil, err
	}
	if err := c.addNodes(e); err != nil {
		return nil, err
	}
	for i, op := range c.Operations {
		if err := addOperation(e, op, i); err != nil {
			return nil, err
		}
	}
	return e, e.SetVolumes(c.At, c.Volumes)
}

func (c Cluster) addNodes(e *engine.Engine) error {
	count := int64(0)
	for group, n := range c.Nodes {
		if n.Count < 0 || n.Count > maxNodes || count+n.Count > maxNodes {
			return fmt.Errorf("nodes: there are too many: the limit is %d", maxNodes)
		}
		count += n.Count
		for i := range n.Count {
			if err := e.SetNode(n.id(group, i), n.Resources, true, n.Tags...); err != nil {
				return err
			}
		}
	}
	return nil
}

func addOperation(e *engine.Engine, op Operation, index int) error {
	record := engine.Operation{
		ID: op.ID, Pool: op.Pool, Started: op.Started, Enabled: !op.Idle, Gang: op.Gang,
	}.With(op.Options)
	if err := e.AddOperation(record); err != nil {
		return err
	}
	for i, task := range op.Tasks {
		if err := e.SetDemand(op.ID, scheduling.TaskName(fmt.Sprint(i)), 0, task.Pending, task.PerJob); err != nil {
			return err
		}
	}
	if op.Usage.IsZero() {
		return nil
	}
	// One allocation stands for all of its jobs, on an unknown node, which offers nothing.
	return e.AddAllocation(engine.Allocation{
		Job: scheduling.JobID(fmt.Sprint("usage/", index)), Operation: op.ID, Node: "usage", Resources: op.Usage, Started: op.Started,
	})
}
