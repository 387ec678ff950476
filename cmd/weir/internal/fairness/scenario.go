package fairness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"weir/cmd/weir/internal/simulate"
)

// Kinds are the kinds of scenarios; a seed has the kind at index seed mod len(Kinds).
var Kinds = []string{
	"plain", "guarantees", "burst", "relaxed", "limits", "fifo", "large jobs", "one-job operations", "node failures", "leader changes", "mixed",
}

// Scenario is a randomly generated cluster and its work.
type Scenario struct {
	Seed uint64
	Kind string
	// Text is the file for weir simulate.
	Text []byte
	File *simulate.File
}

// New returns the scenario of a seed.
func New(seed uint64) (Scenario, error) {
	s := Scenario{Seed: seed, Kind: Kinds[seed%uint64(len(Kinds))]}
	g := newGenerator(seed, s.Kind)
	text, err := yaml.MarshalWithOptions(g.document(), yaml.Flow(false), yaml.UseSingleQuote(false))
	if err != nil {
		return s, fmt.Errorf("scenario %d: %w", seed, err)
	}
	s.Text = text
	s.File, err = simulate.Read(text, nil, simulate.Changes{})
	if err != nil {
		return s, fmt.Errorf("scenario %d: %w\n%s", seed, err, text)
	}
	return s, nil
}

// generator draws a scenario.
type generator struct {
	kind     string
	seed     uint64
	chance   *rand.Rand
	duration time.Duration
	nodes    int
	// cpu is the number of cores of a node.
	cpu    int
	leaves []*leaf
	pools  map[string]any
}

// leaf is a pool with operations.
type leaf struct {
	name    string
	options map[string]any
	// parents are the options of the pools above it.
	parents []map[string]any
	// part is its weighted share of the cluster when every pool is hungry.
	part float64
	// job is the number of cores of its largest job.
	job int
}

func newGenerator(seed uint64, kind string) *generator {
	g := &generator{kind: kind, seed: seed, chance: rand.New(rand.NewPCG(seed, 12)), pools: map[string]any{}}
	// The first outputs of similar seeds are similar.
	g.chance.Uint64()
	return g
}

// is reports whether the scenario has the special feature of a kind; a mixed scenario has each
// with a chance of 40%.
func (g *generator) is(kind string) bool {
	return g.kind == kind || g.kind == "mixed" && g.percent(40)
}

func (g *generator) percent(p int) bool { return g.chance.IntN(100) < p }

// between returns a random whole number from `a` to `b`.
func (g *generator) between(a, b int) int { return a + g.chance.IntN(b-a+1) }

func oneOf[T any](g *generator, values ...T) T { return values[g.chance.IntN(len(values))] }

func (g *generator) document() map[string]any {
	g.duration = oneOf(g, time.Hour, 90*time.Minute, 2*time.Hour, 3*time.Hour)
	g.nodes, g.cpu = g.between(2, 8), oneOf(g, 4, 8)
	g.tree()
	options := g.treeOptions()
	d := map[string]any{
		"title": fmt.Sprintf("%s, scenario %d", g.kind, g.seed), "seed": g.seed, "duration": text(g.duration), "heartbeat": "1s",
		"nodes":   []any{map[string]any{"name": "n", "count": g.nodes, "cpu": g.cpu, "memory": fmt.Sprintf("%dGiB", 4*g.cpu)}},
		"options": options, "pools": g.pools,
	}
	workloads := map[string]any{}
	for _, l := range g.leaves {
		g.work(l, workloads)
	}
	d["workloads"] = workloads
	if slices.ContainsFunc(g.leaves, func(l *leaf) bool { return 2*l.job > g.cpu }) {
		// Only aggressive starvation makes room for jobs this large among long jobs. It makes no
		// room among jobs of graceful operations.
		options["enable_aggressive_starvation"] = true
		for _, w := range workloads {
			delete(w.(map[string]any)["options"].(map[string]any), "preemption_mode")
		}
	}
	g.promise(d)
	if failures := g.failures(); failures != nil {
		d["failures"] = failures
	}
	return d
}

func text(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

// total is the number of cores of the cluster.
func (g *generator) total() int { return g.nodes * g.cpu }

// treeOptions draws the tree options: limits, starvation and preemption.
func (g *generator) treeOptions() map[string]any {
	o := map[string]any{
		"max_operation_count_per_pool": 20000, "max_running_operation_count_per_pool": 20000, "max_running_operation_count": 20000,
		"allocation_preemption_timeout": oneOf(g, "5s", "15s", "30s"), "allocation_graceful_preemption_timeout": oneOf(g, "1m", "2m", "3m"),
	}
	if g.percent(50) {
		o["fair_share_starvation_timeout"] = oneOf(g, "10s", "20s", "1m", "2m")
		o["fair_share_aggressive_starvation_timeout"] = "5m"
	}
	if g.percent(30) {
		o["fair_share_starvation_tolerance"] = oneOf(g, 0.7, 0.9, 1.0)
	}
	if g.percent(30) {
		o["preemptive_scheduling_backoff"] = oneOf(g, "1s", "10s", "15s")
	}
	if g.percent(20) {
		o["enable_aggressive_starvation"] = true
	}
	if g.percent(20) {
		o["min_run_time"] = oneOf(g, "20s", "1m", "2m")
	}
	return o
}

// tree makes the pools: 2 to 11 leaves in 1 to 3 levels.
func (g *generator) tree() {
	g.grow("", g.pools, nil, oneOf(g, 1, 1, 2, 2, 3), g.between(2, 11), 1)
}

// grow puts the given number of leaves below a pool. `prefix` makes their names unique in the tree.
func (g *generator) grow(prefix string, into map[string]any, parents []map[string]any, levels, leaves int, part float64) {
	type child struct {
		name           string
		options        map[string]any
		weight         float64
		leaves, levels int
	}
	var children []child
	sum := 0.0
	for left := leaves; left > 0; {
		c := child{name: fmt.Sprintf("%sp%d", prefix, len(children)+1), weight: oneOf(g, 1.0, 1, 1, 2, 3, 5), leaves: 1}
		if levels > 1 && left > 1 && g.percent(60) {
			c.leaves, c.levels = g.between(2, max(left/2, 2)), levels-1
		}
		c.options = map[string]any{}
		if c.weight != 1 {
			c.options["weight"] = c.weight
		}
		left -= c.leaves
		sum += c.weight
		children = append(children, c)
	}
	for _, c := range children {
		into[c.name] = c.options
		if c.levels > 0 {
			below := map[string]any{}
			c.options["pools"] = below
			g.grow(c.name+"-", below, append(parents[:len(parents):len(parents)], c.options), c.levels, c.leaves, part*c.weight/sum)
			continue
		}
		g.leaves = append(g.leaves, &leaf{name: c.name, options: c.options, parents: parents, part: part * c.weight / sum})
	}
}

// failures draws failures of nodes and leaders.
func (g *generator) failures() []any {
	var all []any
	at := func() string { return text(time.Duration(g.chance.Int64N(int64(g.duration * 3 / 4)))) }
	if g.is("node failures") {
		for range g.between(1, 3) {
			all = append(all, map[string]any{"at": at(), "nodes": g.between(1, max(g.nodes/3, 1)), "back_after": oneOf(g, "2m", "10m", "20m")})
		}
	}
	if g.is("leader changes") {
		for range g.between(1, 4) {
			all = append(all, map[string]any{"at": at(), "leader": true, "gap": oneOf(g, "1s", "3s", "10s")})
		}
	}
	return all
}
