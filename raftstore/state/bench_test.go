package state

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/statistics"
)

// crowd is a state of nodes and operations with a number of allocations.
type crowd struct {
	state *State
	index uint64
	jobs  int
}

const (
	crowdNodes      = 1000
	crowdOperations = 50
)

func newCrowd(b *testing.B, allocations int) *crowd {
	b.Helper()
	c := &crowd{state: New()}
	c.do(b, &commandpb.BeginTerm{Term: 1, Replica: "r1", Limits: &statepb.Limits{JobsPerOperation: 1e6}})
	for i := range crowdNodes {
		c.do(b, nodeOf(fmt.Sprint("n", i), 1e6))
	}
	for i := range crowdOperations {
		id := fmt.Sprint("op", i)
		spec := specOf(1e6)
		spec.Tasks[0].RestartCompletedJobs = true
		c.do(b, createPool(id, "", nil))
		spec.Pool = id
		c.do(b, &commandpb.StartOperation{OperationId: id, Spec: spec})
		for _, step := range roadOf(id, spec) {
			c.do(b, step)
		}
	}
	for range allocations / 100 {
		c.start(b, 100)
	}
	return c
}

func (c *crowd) do(b *testing.B, msg proto.Message) *commandpb.Result {
	c.index++
	result, _ := c.state.Apply(c.index, msg)
	if r := result.GetRefusal(); r != nil {
		b.Fatalf("%T: %v", msg, r)
	}
	return result
}

// start grants jobs over all nodes and operations.
func (c *crowd) start(b *testing.B, grants int) {
	cmd := &commandpb.StartAllocations{Term: 1}
	for range grants {
		g := grantOf(fmt.Sprint("j", c.jobs), fmt.Sprint("op", c.jobs%crowdOperations))
		g.Node = fmt.Sprint("n", c.jobs%crowdNodes)
		cmd.Grants = append(cmd.Grants, g)
		c.jobs++
	}
	for _, g := range c.do(b, cmd).GetStartAllocations().GetGrants() {
		if g.GetRefusal() != "" {
			b.Fatal(g)
		}
	}
}

// finish ends the latest n jobs of an operation that are a round apart.
func (c *crowd) finish(b *testing.B, operation, first, n int) {
	cmd := &commandpb.FinishJobs{OperationId: fmt.Sprint("op", operation), Epoch: 1}
	for i := range n {
		cmd.Jobs = append(cmd.Jobs, &statepb.FinishedJob{JobId: fmt.Sprint("j", first+i*crowdOperations), State: "completed"})
	}
	for _, j := range c.do(b, cmd).GetFinishJobs().GetJobs() {
		if j.GetRefusal() != "" {
			b.Fatal(j)
		}
	}
}

// BenchmarkApply starts and finishes jobs beside others: the work for a job must
// not grow with how many there are.
func BenchmarkApply(b *testing.B) {
	for _, allocations := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprintf("allocations=%d", allocations), func(b *testing.B) {
			c := newCrowd(b, allocations)
			b.ReportAllocs()
			jobs := 0
			for b.Loop() {
				first := c.jobs
				c.start(b, 10*crowdOperations)
				for operation := range crowdOperations {
					c.finish(b, (first+operation)%crowdOperations, first+operation, 10)
				}
				jobs += 10 * crowdOperations
			}
			b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkMeasured starts and finishes jobs of which all is measured, and which teach.
func BenchmarkMeasured(b *testing.B) {
	c := newCrowd(b, 1000)
	b.ReportAllocs()
	jobs := 0
	for b.Loop() {
		first := c.jobs
		c.start(b, crowdOperations)
		for operation := range crowdOperations {
			id := fmt.Sprint("op", (first+operation)%crowdOperations)
			var values statistics.Values
			for i, d := range statistics.All() {
				values.Put(d.Name, int64(1000*i+jobs%97))
			}
			packed, _ := values.Pack()
			c.do(b, &commandpb.FinishJobs{OperationId: id, Epoch: 1, Jobs: []*statepb.FinishedJob{{
				JobId: fmt.Sprint("j", first+operation), State: "completed", Sample: &statepb.MemorySample{User: 0.2, Proxy: 1},
				Statistics: &statepb.JobStatistics{Packed: packed},
			}}})
			o, _ := c.state.Operation(scheduling.OperationID(id))
			c.do(b, &commandpb.UpdateReserves{OperationId: id, Epoch: 1, Tasks: []*commandpb.TaskReserve{{
				Task: "t", Samples: o.GetTasks()[0].GetMemory().GetSampleCount(), Reserve: &statepb.JobReserve{User: 1000},
			}}})
		}
		jobs += crowdOperations
	}
	b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFreeze shows how long commands wait for a snapshot of many
// allocations to begin.
func BenchmarkFreeze(b *testing.B) {
	c := newCrowd(b, 100000)
	for b.Loop() {
		c.state.Freeze()
	}
}

// BenchmarkFirstChange shows how long the first change after a snapshot takes, of an operation with 50,000 jobs that
// have completed and as many, between them, that have to run again.
func BenchmarkFirstChange(b *testing.B) {
	const jobs = 100_000
	c := &crowd{state: New()}
	c.do(b, &commandpb.BeginTerm{Term: 1, Replica: "r1", Limits: &statepb.Limits{JobsPerOperation: jobs}})
	c.do(b, nodeOf("n1", jobs))
	spec := specOf(jobs)
	c.do(b, &commandpb.StartOperation{OperationId: "op", Spec: spec})
	for _, step := range roadOf("op", spec) {
		c.do(b, step)
	}
	start, end := &commandpb.StartAllocations{Term: 1}, &commandpb.FinishJobs{OperationId: "op", Epoch: 1}
	for i := range jobs {
		job := fmt.Sprint("j", i)
		start.Grants = append(start.Grants, grantOf(job, "op"))
		ended := &statepb.FinishedJob{JobId: job, State: "completed"}
		if i%2 == 0 {
			ended.State, ended.AbortReason = "aborted", "node_offline"
		}
		end.Jobs = append(end.Jobs, ended)
	}
	c.do(b, start)
	c.do(b, end)
	for i := 0; b.Loop(); i++ {
		c.state.Freeze()
		c.do(b, &commandpb.StartAllocations{Term: 1, Grants: []*commandpb.Grant{grantOf(fmt.Sprint("k", i), "op")}})
	}
}

// BenchmarkTree shows what starts, edits and ephemeral pools cost in a tree of 1,000
// pools with 10,000 operations.
func BenchmarkTree(b *testing.B) {
	const pools, operations = 1000, 10000
	crowded := func(b *testing.B) *crowd {
		c := &crowd{state: New()}
		c.do(b, &commandpb.BeginTerm{Term: 1, Replica: "r1", Limits: &statepb.Limits{Operations: 1e6, ArchivedOperations: 1}})
		c.do(b, treeEdit("", map[string]any{"max_operation_count_per_pool": 1e6, "max_operation_count": 1e6, "max_ephemeral_pools_per_user": 1e6}))
		var made []*commandpb.TreeEdit
		for i := range pools {
			parent := ""
			if i >= 100 {
				parent = fmt.Sprint("pool", i%100)
			}
			made = append(made, creation(fmt.Sprint("pool", i), parent, map[string]any{"weight": i + 1, "max_running_operation_count": 10}))
		}
		c.do(b, edit(made...))
		for i := range operations {
			spec := specOf(1)
			spec.Pool = fmt.Sprint("pool", i%pools)
			c.do(b, &commandpb.StartOperation{OperationId: fmt.Sprint("op", i), User: "ann", Spec: spec})
		}
		return c
	}
	// cycle starts an operation in a pool and ends it.
	cycle := func(b *testing.B, c *crowd, pool string) {
		spec := specOf(1)
		spec.Pool = pool
		c.do(b, &commandpb.StartOperation{OperationId: "new", User: "bob", Spec: spec})
		c.do(b, &commandpb.AbortOperation{OperationId: "new"})
		c.do(b, &commandpb.AdvanceOperation{OperationId: "new", Term: 1, From: "aborting", To: "aborted"})
		c.do(b, &commandpb.StartOperation{OperationId: "spacer", User: "bob", Spec: specOf(1)})
		c.do(b, &commandpb.AbortOperation{OperationId: "spacer"})
		c.do(b, &commandpb.AdvanceOperation{OperationId: "spacer", Term: 1, From: "aborting", To: "aborted"})
	}
	for story, run := range map[string]func(*testing.B, *crowd, int){
		"start and end in a pool":            func(b *testing.B, c *crowd, _ int) { cycle(b, c, "pool500") },
		"start and end in an ephemeral pool": func(b *testing.B, c *crowd, _ int) { cycle(b, c, "own") },
		"change a pool":                      func(b *testing.B, c *crowd, i int) { c.do(b, changePool("pool500", map[string]any{"weight": 1 + i%9})) },
		"rename a pool": func(b *testing.B, c *crowd, i int) {
			c.do(b, edit(renaming([]string{"pool500", "other"}[i%2], []string{"other", "pool500"}[i%2])))
		},
		"move an operation": func(b *testing.B, c *crowd, i int) {
			c.do(b, updateOf("op7", "", to([]string{"pool500", "pool7"}[i%2]), nil))
		},
	} {
		b.Run(story, func(b *testing.B) {
			c := crowded(b)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				run(b, c, i)
				i++
			}
		})
	}
}

// BenchmarkNodeGrants shows what 10,000 nodes cost with 1,000 grants, of which each matches 10 nodes and 50
// nodes are refused: to list the refused ones, to register a node, to change a grant, and to restore.
func BenchmarkNodeGrants(b *testing.B) {
	const nodes, grants = 10000, 1000
	c := &crowd{state: New()}
	c.do(b, &commandpb.BeginTerm{Term: 1, Replica: "r1", Limits: &statepb.Limits{ByGrant: 2 * grants}})
	for i := range grants {
		c.do(b, nodeGrant(fmt.Sprintf("n%03d?", i), nil, nil))
	}
	for i := range nodes {
		c.do(b, nodeOf(fmt.Sprintf("n%04d", i), 4))
	}
	for i := range 5 {
		c.do(b, &commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: fmt.Sprintf("n%03d?", i)}, Disallow: true, Force: true})
	}
	b.Run("refused", func(b *testing.B) {
		for b.Loop() {
			if n := len(RightsIn(c.state).RefusedNodes()); n != 50 {
				b.Fatal(n)
			}
		}
	})
	b.Run("register", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			c.do(b, nodeOf(fmt.Sprintf("n%04d", 50+i%1000), 4))
		}
	})
	b.Run("edit", func(b *testing.B) {
		for b.Loop() {
			c.do(b, nodeGrant("n999?", []string{"gpu"}, nil))
		}
	})
	frozen := c.state.Freeze()
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			mustRestore(b, frozen)
		}
	})
}
