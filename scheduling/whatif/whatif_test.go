package whatif

import (
	"testing"

	"weir/scheduling"
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
