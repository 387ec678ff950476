package whatif

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// hungry is a cluster of ten cores with two pools that want them all. What files
// describe, and more changes, are tried in package poolfile.
func hungry(t *testing.T) Cluster {
	t.Helper()
	pools, err := pooltree.FromPools(pooltree.Default(), []pooltree.Pool{{Name: "a", Parent: scheduling.RootPool}, {Name: "b", Parent: scheduling.RootPool}})
	if err != nil {
		t.Fatal(err)
	}
	job := resource.Amounts{CPU: resource.Cores(1)}
	return Cluster{
		Pools: pools,
		Nodes: []Node{{Count: 2, Resources: job.Times(5)}},
		Operations: []Operation{
			{ID: "one", Pool: "a", Usage: job.Times(8), Tasks: []Task{{Pending: 10, PerJob: job}}},
			{ID: "two", Pool: "b", Tasks: []Task{{Pending: 10, PerJob: job}}},
		},
	}
}

func TestSolve(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Cluster)
		want   map[string]float64
	}{
		"both want all":            {func(*Cluster) {}, map[string]float64{"a": 0.5, "b": 0.5}},
		"one is idle":              {func(c *Cluster) { c.Operations[1].Idle = true }, map[string]float64{"a": 1, "b": 0}},
		"an idle one keeps its":    {func(c *Cluster) { c.Operations[0].Idle = true }, map[string]float64{"a": 0.5, "b": 0.5}},
		"a gang that does not fit": {func(c *Cluster) { c.Operations[0].Gang = true }, map[string]float64{"a": 0.5}},
		"nothing":                  {func(c *Cluster) { c.Nodes = nil }, map[string]float64{"a": 0, "b": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			c := hungry(t)
			test.change(&c)
			r, err := c.Solve()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Shares {
				if want, ok := test.want[s.Name]; ok && s.Fair.MaxComponent() != want {
					t.Errorf("%s: %v, want %v", s.Name, s.Fair.MaxComponent(), want)
				}
			}
		})
	}
}

func TestOrderOfShares(t *testing.T) {
	c := hungry(t)
	c.Operations[0].Pool = "b"
	r, err := c.Solve()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"<Root>", "a", "b", "one", "two"}
	for i, s := range r.Shares {
		if s.Name != want[i] {
			t.Errorf("%d: %s, want %s", i, s.Name, want[i])
		}
	}
}

// TestPredictionEqualsTheEngine describes a cluster with filters, and gives the same to
// an engine whose nodes have had the time to connect.
func TestPredictionEqualsTheEngine(t *testing.T) {
	filtered := func(expression string) pooltree.PoolOptions {
		o, err := pooltree.ReadPoolOptions(map[string]any{"scheduling_tag_filter": expression})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	c := hungry(t)
	var err error
	if c.Pools, err = pooltree.FromPools(pooltree.Default(), []pooltree.Pool{
		{Name: "a", Parent: scheduling.RootPool, Options: filtered("ssd & !old")}, {Name: "b", Parent: scheduling.RootPool},
	}); err != nil {
		t.Fatal(err)
	}
	c.Nodes = append(c.Nodes, Node{Count: 1, Resources: c.Nodes[0].Resources, Tags: []string{"ssd"}}, Node{Count: 1, Resources: c.Nodes[0].Resources, Tags: []string{"ssd", "old"}})
	c.At = time.Unix(1_000_000, 0)
	predicted, err := c.Solve()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Default())
	if err != nil {
		t.Fatal(err)
	}
	steps := []error{e.SetTree(c.Pools)}
	for i, n := range c.Nodes {
		for j := range n.Count {
			steps = append(steps, e.SetNode(scheduling.NodeID(fmt.Sprint(i, j)), n.Resources, true, n.Tags...))
		}
	}
	for i, op := range c.Operations {
		steps = append(steps, addOperation(e, op, i))
	}
	for _, after := range []time.Duration{0, time.Hour} {
		_, err := e.Tick(c.At.Add(after))
		steps = append(steps, err)
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	seen := ordered(e.Snapshot())
	for i, s := range predicted.Shares {
		if s != seen[i] {
			t.Errorf("predicted %+v, the engine has %+v", s, seen[i])
		}
	}
	if a := predicted.Shares[1]; a.Name != "a" || a.Fair.MaxComponent() != 0.25 {
		t.Errorf("pool %s gets %v, want a with 0.25", a.Name, a.Fair)
	}
}
