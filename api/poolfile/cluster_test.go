package poolfile_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/api/poolfile"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
	"weir/scheduling/whatif"
)

// describe reads a cluster.
func describe(t testing.TB, text string) whatif.Cluster {
	t.Helper()
	c, err := poolfile.ReadCluster([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fair returns the fair share of a pool or an operation by its name.
func fair(t testing.TB, c whatif.Cluster, name string) float64 {
	t.Helper()
	r, err := c.Solve()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Shares {
		if s.Name == name {
			return s.Fair.MaxComponent()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

const hungry = `
nodes: [{count: 10, cpu: 10, user_slots: 1000}]
pools: {a: {weight: 1}, b: {weight: 3}}
operations:
  one: {pool: a, jobs: 500, running: 20, job: {cpu: 1}}
  two: {pool: b, jobs: 500, job: {cpu: 1}}
`

func TestWith(t *testing.T) {
	weight := func(of string, value any) whatif.Change {
		return whatif.Change{Set: &whatif.Setting{Of: of, Path: "weight", Value: value}}
	}
	parse := func(text string) whatif.Change {
		p, err := poolfile.ReadPool(text)
		if err != nil {
			t.Fatal(err)
		}
		return whatif.Change{AddPool: &p}
	}
	start := func(text string) whatif.Change {
		op, err := poolfile.ReadOperation(text)
		if err != nil {
			t.Fatal(err)
		}
		return whatif.Change{AddOperation: &op}
	}
	cores := func(n int64, cpu float64) whatif.Change {
		return whatif.Change{AddNodes: &whatif.Node{Count: n, Resources: resource.Amounts{CPU: resource.Cores(cpu), UserSlots: 1000}}}
	}
	for name, test := range map[string]struct {
		changes []whatif.Change
		want    map[string]float64
		refusal string
	}{
		"as it is":                  {want: map[string]float64{"a": 0.25, "b": 0.75, "one": 0.25}},
		"another weight":            {changes: []whatif.Change{weight("b", 1.0)}, want: map[string]float64{"a": 0.5, "b": 0.5}},
		"a weight's default":        {changes: []whatif.Change{weight("b", nil)}, want: map[string]float64{"b": 0.5}},
		"a pool and an operation":   {changes: []whatif.Change{parse("c: {weight: 4}"), start("three: {pool: c, jobs: 500, job: {cpu: 1}}")}, want: map[string]float64{"c": 0.5, "a": 0.125}},
		"one in a pool":             {changes: []whatif.Change{start("more: {pool: a, jobs: 500, weight: 4, job: {cpu: 1}}")}, want: map[string]float64{"a": 0.25, "one": 0.05, "more": 0.2}},
		"one that goes":             {changes: []whatif.Change{{RemoveOperation: "two"}}, want: map[string]float64{"a": 1, "b": 0}},
		"more nodes than demand":    {changes: []whatif.Change{cores(200, 10)}, want: map[string]float64{"one": 500.0 / 2100}},
		"fewer nodes":               {changes: []whatif.Change{cores(-9, 10)}, want: map[string]float64{"a": 0.25}},
		"a limit":                   {changes: []whatif.Change{{Set: &whatif.Setting{Of: "b", Path: "resource_limits/cpu", Value: 10.0}}}, want: map[string]float64{"a": 0.9, "b": 0.1}},
		"an operation's own limit":  {changes: []whatif.Change{{Set: &whatif.Setting{Of: "two", Path: "resource_limits/cpu", Value: 10.0}}}, want: map[string]float64{"b": 0.1}},
		"an operation's other pool": {changes: []whatif.Change{{Set: &whatif.Setting{Of: "two", Path: "pool", Value: "a"}}}, want: map[string]float64{"two": 0.5, "b": 0}},
		"a pool below another":      {changes: []whatif.Change{parse("c: {weight: 1}"), {Set: &whatif.Setting{Of: "b", Path: "parent", Value: "c"}}}, want: map[string]float64{"c": 0.5, "b": 0.5}},

		"nobody":              {changes: []whatif.Change{weight("x", 1.0)}, refusal: "no pool or operation has this name"},
		"no option":           {changes: []whatif.Change{{Set: &whatif.Setting{Of: "a", Path: "wieght", Value: 1.0}}}, refusal: "did you mean weight?"},
		"a bad value":         {changes: []whatif.Change{weight("a", -1.0)}, refusal: "weight"},
		"a pool twice":        {changes: []whatif.Change{parse("a")}, refusal: "pool already exists"},
		"a pool in use":       {changes: []whatif.Change{{RemovePool: "a"}}, refusal: `remove pool "a": pool is in use: it has operation "one": move it or remove it too`},
		"a pool of nobody":    {changes: []whatif.Change{start("three: {pool: x, jobs: 1}")}, refusal: `operation "three": pool "x": no such pool: add it or use another`},
		"an operation twice":  {changes: []whatif.Change{start("one: {pool: a, jobs: 1}")}, refusal: "is defined twice"},
		"too many nodes less": {changes: []whatif.Change{cores(-11, 10)}, refusal: "remove 11x{cpu: 10, user_slots: 1000}: there are only 10 such nodes (there are 10x{cpu: 10, user_slots: 1000})"},
	} {
		t.Run(name, func(t *testing.T) {
			before := describe(t, hungry)
			after, err := before.With(test.changes...)
			if test.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), test.refusal) {
					t.Fatalf("got %v, want a refusal with %s", err, test.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for of, want := range test.want {
				if got := fair(t, after, of); !near(got, want) {
					t.Errorf("%s: %v, want %v", of, got, want)
				}
			}
			if got := fair(t, before, "a"); !near(got, 0.25) {
				t.Errorf("the cluster itself has changed: a has %v", got)
			}
		})
	}
}

// TestTagsBoundShares describes nodes with tags, and filters of a pool and of an
// operation.
func TestTagsBoundShares(t *testing.T) {
	const text = `
nodes:
  - {count: 3, cpu: 10, user_slots: 1000, tags: [ssd, old]}
  - {count: 5, cpu: 10, user_slots: 1000}
  - {count: 2, cpu: 10, user_slots: 1000, tags: [gpu]}
pools: {a: {scheduling_tag_filter: ssd}, b: }
operations:
  one: {pool: a, jobs: 500, job: {cpu: 1}}
  two: {pool: b, jobs: 500, job: {cpu: 1}}
  three: {pool: b, jobs: 500, job: {cpu: 1}, scheduling_tag_filter: gpu}
`
	c := describe(t, text)
	for name, want := range map[string]float64{"a": 0.3, "one": 0.3, "b": 0.7, "two": 0.5, "three": 0.2} {
		if got := fair(t, c, name); !near(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	shape := c.Nodes[0].Resources
	for name, tc := range map[string]struct {
		nodes whatif.Node
		want  float64
	}{
		"more that it takes":  {whatif.Node{Count: 1, Resources: shape, Tags: []string{"ssd"}}, 4.0 / 11},
		"more that it leaves": {whatif.Node{Count: 1, Resources: shape}, 3.0 / 11},
		"fewer that it takes": {whatif.Node{Count: -2, Resources: shape, Tags: []string{"old"}}, 1.0 / 8},
	} {
		after, err := c.With(whatif.Change{AddNodes: &tc.nodes})
		if err != nil {
			t.Fatal(err)
		}
		if got := fair(t, after, "a"); !near(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if _, err := c.With(whatif.Change{AddNodes: &whatif.Node{Count: -4, Resources: shape, Tags: []string{"ssd"}}}); err == nil || !strings.Contains(err.Error(), "there are only 3") {
		t.Errorf("four of three nodes go: %v", err)
	}
}

func TestOvercommitIsNamed(t *testing.T) {
	c := describe(t, "total: {cpu: 10}\npools: {a: {strong_guarantee_resources: {cpu: 8}}, b: {strong_guarantee_resources: {cpu: 2}}, c: }")
	r, err := c.Solve()
	if err != nil || len(r.Overcommitted) != 0 {
		t.Fatalf("what fits is over-committed: %v %v", r.Overcommitted, err)
	}
	more, err := c.With(whatif.Change{Set: &whatif.Setting{Of: "b", Path: "strong_guarantee_resources/cpu", Value: 4.5}})
	if err != nil {
		t.Fatal(err)
	}
	r, err = more.Solve()
	if err != nil || len(r.Overcommitted) != 1 || r.Overcommitted[0].String() != "cpu: 12.5 are guaranteed to a, b, but there are only 10" {
		t.Errorf("got %v, %v", r.Overcommitted, err)
	}
}

// TestGuaranteesThatDoNotFitAreNamed: flows and bursts count beside strong guarantees, and the
// warning has the names of all pools that have any, those below others too.
func TestGuaranteesThatDoNotFitAreNamed(t *testing.T) {
	c := describe(t, `
total: {cpu: 10}
pools:
  strong: {strong_guarantee_resources: {cpu: 8}, pools: {inner: {strong_guarantee_resources: {cpu: 2}}}}
  rest: {pools: {saves: {integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 1}}}}}
`)
	r, err := c.Solve()
	if err != nil || len(r.Alerts) != 0 {
		t.Fatalf("what fits: %v, %v", r.Alerts, err)
	}
	for path, value := range map[string]float64{"resource_flow": 5, "burst_guarantee_resources": 5} {
		settings := []whatif.Change{{Set: &whatif.Setting{Of: "saves", Path: "integral_guarantees/" + path + "/cpu", Value: value}}}
		if path == "burst_guarantee_resources" {
			settings = append(settings, whatif.Change{Set: &whatif.Setting{Of: "saves", Path: "integral_guarantees/guarantee_type", Value: "burst"}})
		}
		more, err := c.With(settings...)
		if err != nil {
			t.Fatal(err)
		}
		const want = "guarantees of saves, strong exceed the resources of the cluster and are cut: lower strong guarantees, flows or bursts, or add nodes"
		if r, err = more.Solve(); err != nil || len(r.Alerts) != 1 || r.Alerts[0] != want {
			t.Errorf("%s: got %q, %v, want %q", path, r.Alerts, err, want)
		}
	}
}

func TestVolumesPayForBursts(t *testing.T) {
	c := describe(t, `
total: {cpu: 100}
pools:
  burst: {weight: 0.0001, integral_guarantees: {guarantee_type: burst, resource_flow: {cpu: 1}, burst_guarantee_resources: {cpu: 60}}}
  rest: {weight: 1}
operations:
  one: {pool: burst, jobs: 100, job: {cpu: 1, user_slots: 0}}
  two: {pool: rest, jobs: 100, job: {cpu: 1, user_slots: 0}}
volumes: {burst: {user_slots: 1, cpu: 100000, memory: 1, gpu: 1, network: 1}}
`)
	if got := fair(t, c, "burst"); !near(got, 0.6) && got < 0.6 {
		t.Errorf("with volume: %v, want 0.6", got)
	}
	c.Volumes = nil
	if got := fair(t, c, "burst"); got > 0.01 {
		t.Errorf("without volume: %v, want next to nothing", got)
	}
}

// TestCompare puts what comes and goes side by side.
func TestCompare(t *testing.T) {
	before := describe(t, hungry)
	pool := pooltree.Pool{Name: "c", Parent: "<Root>"}
	after, err := before.With(whatif.Change{AddPool: &pool}, whatif.Change{RemoveOperation: "two"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := before.Solve()
	if err != nil {
		t.Fatal(err)
	}
	b, err := after.Solve()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range whatif.Compare(a, b) {
		name := d.Either().Name
		switch {
		case d.Before == nil:
			name = "+" + name
		case d.After == nil:
			name = "-" + name
		}
		got = append(got, name)
	}
	if text := strings.Join(got, " "); text != "<Root> a one b +c -two" {
		t.Errorf("got %s", text)
	}
}

// TestChangesAreIndependentOfTheirWay makes the same cluster by changes and at once.
func TestChangesAreIndependentOfTheirWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := poolfile.ReadCluster([]byte(hungry))
		if err != nil {
			t.Fatal(err)
		}
		x, y := rapid.Float64Range(0.1, 10).Draw(t, "a"), rapid.Float64Range(0.1, 10).Draw(t, "b")
		set := func(of string, v float64) whatif.Change {
			return whatif.Change{Set: &whatif.Setting{Of: of, Path: "weight", Value: v}}
		}
		one, err := c.With(set("a", x), set("b", y))
		if err != nil {
			t.Fatal(err)
		}
		step, err := c.With(set("b", y))
		if err != nil {
			t.Fatal(err)
		}
		two, err := step.With(set("a", x))
		if err != nil {
			t.Fatal(err)
		}
		p, err := one.Solve()
		if err != nil {
			t.Fatal(err)
		}
		q, err := two.Solve()
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Shares {
			if p.Shares[i] != q.Shares[i] {
				t.Fatalf("%+v and %+v", p.Shares[i], q.Shares[i])
			}
		}
	})
}

func TestReadClusterRefuses(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nodes and a total":       {"total: {cpu: 1}\nnodes: [{cpu: 1}]", "line 1, column 8: total: nodes is set too"},
		"an unknown resource":     {"nodes: [{cores: 1}]", "nodes[0]: unknown resource"},
		"nodes that are no list":  {"nodes: {cpu: 1}", "nodes: is an object, not a list"},
		"tags that are no list":   {"nodes: [{cpu: 1, tags: ssd}]", `nodes[0].tags: is the text "ssd", not a list`},
		"a tag that is no text":   {"nodes: [{cpu: 1, tags: [5]}]", "nodes[0].tags[0]: is the number 5, not text"},
		"a bad count":             {"nodes: [{count: -1, cpu: 1}]", "nodes[0].count: -1 is not a number from 0"},
		"an unknown pool":         {"operations: {a: {pool: x, jobs: 1}}", `operations.a: there is no pool "x"`},
		"an unknown option":       {"pools: {p: }\noperations: {a: {pool: p, wieght: 1}}", "line 2, column 27: operations.a.wieght: unknown option; did you mean weight?"},
		"a word of operations":    {"pools: {p: }\noperations: {a: {pol: p, jobs: 1}}", "line 2, column 18: operations.a.pol: unknown option; did you mean pool?"},
		"an unknown name":         {"nodes: []\nads: {}", "ads: unknown option: use one of tree, options, pools, total, nodes, operations, volumes"},
		"more run than there are": {"pools: {p: }\noperations: {a: {pool: p, jobs: 1, running: 2}}", "operations.a.jobs: 1 is less than running, 2"},
		"a volume of nobody":      {"volumes: {x: {cpu: 1}}", `volumes.x: there is no pool "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := poolfile.ReadCluster([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func FuzzReadCluster(f *testing.F) {
	for _, seed := range []string{hungry, "total: {cpu: 1e300}", "volumes: {a: {cpu: 5}}\npools: {a: }", "operations: {a: {jobs: 1e18, pool: <Root>}}", "nodes: [{count: 3}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := poolfile.ReadCluster(data)
		if err != nil || c.Total().UserSlots > 1e6 || len(c.Nodes) > 100 {
			return
		}
		for _, n := range c.Nodes {
			if n.Count > 1000 {
				return
			}
		}
		r, err := c.Solve()
		if err != nil {
			return
		}
		for _, s := range r.Shares {
			if m := s.Fair.MaxComponent(); !(m >= 0 && m <= 1+1e-6) {
				t.Errorf("%s has a fair share of %v", s.Name, m)
			}
		}
	})
}
