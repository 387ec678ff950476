package conformance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weir/scheduling"
	"weir/scheduling/pooltree"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// listsCase is a case about the groups of one operation's allocations.
type listsCase struct {
	head
	Total     amounts `json:"total_resources"`
	Config    config  `json:"config"`
	Operation struct {
		Running []allocationsCase `json:"running_allocations"`
		Demand  amounts           `json:"demand"`
	} `json:"operation"`
	GivenFair    *share `json:"given_fair_share_total"`
	MaxComponent struct {
		Demand *float64 `json:"demand_share"`
		Fair   *float64 `json:"fair_share_total"`
	} `json:"max_component"`
	Expect struct {
		Fair   *share            `json:"fair_share_total"`
		Ranges map[string][2]int `json:"allocation_status_ranges"`
	} `json:"expect"`
}

// share is a share of the cluster; null is one that is not known, and 0.
type share resource.Vector

// UnmarshalJSON wants as many components as there are resources.
func (s *share) UnmarshalJSON(content []byte) error {
	var all []*float64
	if err := strict(content, &all); err != nil {
		return err
	}
	if len(all) != resource.Count {
		return fmt.Errorf("%d components", len(all))
	}
	for i, v := range all {
		if v != nil {
			s[i] = *v
		}
	}
	return nil
}

// replayLists cuts the allocations of an operation into groups.
func replayLists(r *result, vector json.RawMessage) error {
	var c listsCase
	if err := strict(vector, &c); err != nil {
		return err
	}
	bounds, err := c.bounds()
	if err != nil {
		return err
	}
	var g preemption.Groups
	g.SetBounds(bounds)
	for _, a := range c.Operation.Running {
		each, err := a.Resources.exact()
		if err != nil {
			return err
		}
		for range a.Count {
			n := g.Len()
			g.Add(&preemption.Member{Job: scheduling.JobID(fmt.Sprint(n)), Started: epoch.Add(time.Duration(n) * time.Second), Resources: each})
		}
	}
	k := checker{world: &world{testCase: &testCase{head: c.head}}, result: r, name: c.Name}
	k.checkShare("demand_share", bounds.Demand, c.MaxComponent.Demand)
	k.checkShare("fair_share_total", bounds.Fair, c.MaxComponent.Fair)
	return k.checkRanges(&g, c.Expect.Ranges)
}

func (k *checker) checkShare(name string, got resource.Vector, want *float64) {
	if want != nil {
		k.number("operation", "max_component."+name, got.MaxComponent(), *want, k.Tolerance.Abs)
	}
}

// checkRanges compares where the groups begin and end in the order of start.
func (k *checker) checkRanges(g *preemption.Groups, want map[string][2]int) error {
	got := map[string][2]int{}
	i := 0
	for m := g.First(); m != nil; m = m.Next() {
		name := m.Level().String()
		if at, ok := got[name]; ok && at[1] == i {
			got[name] = [2]int{at[0], i + 1}
		} else {
			got[name] = [2]int{i, i + 1}
		}
		i++
	}
	for name, indexes := range want {
		switch name {
		case "non_preemptible", "aggressively_preemptible", "preemptible":
		default:
			return fmt.Errorf("unknown group %q", name)
		}
		if indexes[0] == indexes[1] {
			_, found := got[name]
			k.equal("operation", "is there any "+name, "", found, false)
			continue
		}
		k.equal("operation", name, "", got[name], indexes)
	}
	return nil
}

// bounds are what the groups are cut by: the settings that hold, and the shares of an
// update with this one operation, or those that are given.
func (c *listsCase) bounds() (preemption.Bounds, error) {
	var b preemption.Bounds
	world, err := c.update()
	if err != nil {
		return b, err
	}
	pool, err := world.settings.Effective("pool")
	if err != nil {
		return b, err
	}
	s, e := world.ofOperations["operation"].Starvation, world.elements["operation"]
	b = preemption.Bounds{
		Fair: e.FairShare, Demand: e.DemandShare, Total: world.total, Threshold: s.Satisfaction, AggressiveThreshold: s.AggressiveThreshold,
		Protected: s.Protected(), Aggressive: pool.Preemption.AllowAggressive,
		OnBoundPreemptible: world.settings.Settings().Preemption.OnBoundPreemptible,
	}
	for _, given := range []*share{c.Expect.Fair, c.GivenFair} {
		if given != nil {
			b.Fair = resource.Vector(*given)
		}
	}
	if given := c.Expect.Fair != nil || c.GivenFair != nil; given && strings.HasSuffix(c.Name, "/first_allocation_grows") {
		// Such a case lists what is used now, and gives the share of the update before: then
		// the operation got all that it demanded.
		b.Demand = b.Fair
	}
	return b, nil
}

// update finds the fair share of the operation. Where the allocations use more than is
// demanded they have grown since the last update, and it is that of before.
func (c *listsCase) update() (*world, error) {
	sum, err := sumOf(c.Operation.Running)
	if err != nil {
		return nil, err
	}
	demand, err := c.Operation.Demand.exact()
	if err != nil {
		return nil, err
	}
	tree := testCase{
		head: c.head, Total: c.Total, Config: c.Config,
		Pools: []poolCase{{ID: "pool", Parent: string(scheduling.RootPool), Mode: pooltree.FairShare}},
		Operations: []operationCase{{
			ID: "operation", Parent: "pool", Demand: c.Operation.Demand, Usage: amounts(sum.Min(demand).Map()),
		}},
	}
	return tree.run(nil)
}
