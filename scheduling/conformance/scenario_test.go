package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// scenarioCase is what comes of a cluster in the end; each of its variants is a cluster
// of its own, but for limits that change while jobs run.
type scenarioCase struct {
	head
	Nodes      []nodeCase          `json:"nodes"`
	Config     config              `json:"config"`
	Pools      []scenarioPool      `json:"pools"`
	Operations []scenarioOperation `json:"operations_in_start_order"`
	// LimitVariants are limits that come when all runs.
	LimitVariants []struct {
		Pool      amounts `json:"pool"`
		Operation amounts `json:"operation"`
	} `json:"limit_variants"`
	// SlotLimits are limits that follow each other; null is none.
	SlotLimits []*float64 `json:"operation_user_slots_limits"`
	MinSpare   []amounts  `json:"min_spare_allocation_resources_on_node_variants"`
	// Research is who runs and Production who comes, in words.
	Research   string                     `json:"research_allocations"`
	Production string                     `json:"production"`
	Expect     map[string]json.RawMessage `json:"expect"`
}

// scenarioPool is a pool with its options.
type scenarioPool struct {
	ID      string   `json:"id"`
	Parent  string   `json:"parent"`
	Options document `json:"-"`
}

// UnmarshalJSON takes all but the first two fields for options.
func (p *scenarioPool) UnmarshalJSON(content []byte) error {
	type plain scenarioPool
	return withSettings(content, (*plain)(p), &p.Options)
}

type scenarioOperation struct {
	ID          string  `json:"id"`
	Pool        string  `json:"pool"`
	Allocations int64   `json:"allocations"`
	Resources   amounts `json:"resources"`
}

// scenario compares what comes of a case.
type scenario struct {
	*scenarioCase
	checker
}

func replayScenario(r *result, vector json.RawMessage) error {
	var c scenarioCase
	if err := strict(vector, &c); err != nil {
		return err
	}
	s := scenario{scenarioCase: &c, checker: checker{world: &world{testCase: &testCase{head: c.head}}, result: r, name: c.Name}}
	kinds := 0
	var replay func() error
	for _, kind := range []struct {
		given  bool
		replay func() error
	}{{c.LimitVariants != nil, s.limits}, {c.SlotLimits != nil, s.slotLimits}, {c.MinSpare != nil, s.minSpare}, {c.Research != "", s.production}} {
		if kind.given {
			kinds, replay = kinds+1, kind.replay
		}
	}
	if kinds != 1 {
		return fmt.Errorf("a scenario of %d kinds: one of limit_variants, operation_user_slots_limits, min_spare_allocation_resources_on_node_variants and research_allocations is needed", kinds)
	}
	return replay()
}

// expect reads what is expected by a name.
func (s *scenario) expect(name string, into any) error {
	content, ok := s.Expect[name]
	if !ok {
		return fmt.Errorf("expect: there is no %s", name)
	}
	return strict(content, into)
}

// only refuses to pass over expectations of other names.
func (s *scenario) only(names ...string) error {
	for name := range s.Expect {
		if !slices.Contains(names, name) {
			return fmt.Errorf("expect: unknown field %q", name)
		}
	}
	return nil
}

// limits lets all run, and then limits the pool or the operation.
func (s *scenario) limits() error {
	var before, after int
	err := errors.Join(s.only("running_allocations_before", "running_allocations_after_limit"),
		s.expect("running_allocations_before", &before), s.expect("running_allocations_after_limit", &after))
	if err != nil {
		return err
	}
	for i, v := range s.LimitVariants {
		c, err := s.cluster(nil)
		if err != nil {
			return err
		}
		if err := c.settle(); err != nil {
			return err
		}
		s.equal("<Root>", "running_allocations_before", fmt.Sprint("of variant ", i), c.running(), before)
		if v.Pool != nil {
			for _, p := range c.pools {
				p.Options["resource_limits"] = plainOf(v.Pool)
			}
			err = c.setTree()
		}
		if v.Operation != nil {
			err = errors.Join(err, c.limit(plainOf(v.Operation)))
		}
		if err != nil {
			return err
		}
		if err := c.settle(); err != nil {
			return err
		}
		s.equal("<Root>", "running_allocations_after_limit", fmt.Sprint("of variant ", i), c.running(), after)
	}
	return nil
}

// slotLimits limits the operations, again and again.
func (s *scenario) slotLimits() error {
	var want []int
	err := errors.Join(s.only("running_allocations"), s.expect("running_allocations", &want))
	if err == nil && len(want) != len(s.SlotLimits) {
		err = fmt.Errorf("%d limits and %d expectations", len(s.SlotLimits), len(want))
	}
	if err != nil {
		return err
	}
	c, err := s.cluster(nil)
	if err != nil {
		return err
	}
	for i, limit := range s.SlotLimits {
		limits := document{}
		if limit != nil {
			limits[resource.UserSlots.String()] = *limit
		}
		if err := errors.Join(c.limit(limits), c.settle()); err != nil {
			return err
		}
		s.equal("<Root>", "running_allocations", fmt.Sprint("of limit ", i), c.running(), want[i])
	}
	return nil
}

// minSpare starts jobs where less and less is free.
func (s *scenario) minSpare() error {
	var want []int
	err := errors.Join(s.only("running_allocations"), s.expect("running_allocations", &want))
	if err == nil && len(want) != len(s.MinSpare) {
		err = fmt.Errorf("%d variants and %d expectations", len(s.MinSpare), len(want))
	}
	if err != nil {
		return err
	}
	for i, spare := range s.MinSpare {
		c, err := s.cluster(document{"min_spare_allocation_resources_on_node": plainOf(spare)})
		if err != nil {
			return err
		}
		if err := c.settle(); err != nil {
			return err
		}
		s.equal("<Root>", "running_allocations", fmt.Sprint("of variant ", i), c.running(), want[i])
	}
	return nil
}

var (
	researchText   = regexp.MustCompile(`^(\d+) allocations of ([\d.]+) cpu, (one|two|three|four|\d+) per node, started one by one: node 0 first, node (\d+) last$`)
	productionText = regexp.MustCompile(`^one operation with one ([\d.]+) cpu allocation bound to a node by scheduling tag$`)
	boundText      = regexp.MustCompile(`^bound_to_node_(\d+)$`)
	inWords        = map[string]int{"one": 1, "two": 2, "three": 3, "four": 4}
)

// production lets an operation that may use one node alone come to a full cluster.
func (s *scenario) production() error {
	research, wanted := researchText.FindStringSubmatch(s.Research), productionText.FindStringSubmatch(s.Production)
	if research == nil || wanted == nil {
		return fmt.Errorf("unknown words: %q and %q", s.Research, s.Production)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Expect)) {
		to := boundText.FindStringSubmatch(name)
		if to == nil {
			return fmt.Errorf("expect: unknown field %q", name)
		}
		if err := s.boundTo(to[1], name, research, wanted[1]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// boundTo binds it to one node.
func (s *scenario) boundTo(node, name string, research []string, cpu string) error {
	want := map[string]any{}
	if err := s.expect(name, &want); err != nil {
		return err
	}
	c, err := s.cluster(nil)
	if err != nil {
		return err
	}
	perNode, known := inWords[research[3]]
	if !known {
		perNode = whole(research[3])
	}
	if last := whole(research[4]); last != len(c.nodes)-1 || whole(research[1]) > perNode*len(c.nodes) {
		return fmt.Errorf("%q does not go with %d nodes", s.Research, len(c.nodes))
	}
	if err := c.add("research", "research", int64(whole(research[1])), cpuJob(research[2]), nil); err != nil {
		return err
	}
	for i := range whole(research[1]) {
		if err := c.run("research", c.nodes[i/perNode]); err != nil {
			return err
		}
	}
	if err := errors.Join(c.settle(), c.add("production", "production", 1, cpuJob(cpu), document{"scheduling_tag_filter": "node" + node}), c.update()); err != nil {
		return err
	}
	preemptible := c.count("research", func(l preemption.Level) bool { return l == preemption.Preemptible })
	earliest := c.first("research", scheduling.NodeID("node"+node))
	if err := c.settle(); err != nil {
		return err
	}
	for field, w := range want {
		var got any
		switch field {
		case "preemptible_allocations_of_research":
			got = float64(preemptible)
		case "production_cpu_usage":
			got = c.usage("production").CPU.Cores()
		case "research_running_allocations":
			got = float64(c.count("research", func(preemption.Level) bool { return true }))
		case "survivor_on_node_" + node:
			got = "somebody else"
			if left := c.on("research", scheduling.NodeID("node"+node)); len(left) == 1 && left[0] == earliest {
				got = "the earlier started one"
			}
		default:
			return fmt.Errorf("unknown field %q", field)
		}
		s.equal(name, field, "", got, w)
	}
	return nil
}

func whole(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// cpuJob is a job of one slot and so many cores.
func cpuJob(cores string) resource.Amounts {
	n, err := strconv.ParseFloat(cores, 64)
	if err != nil {
		n = -1
	}
	return resource.Amounts{UserSlots: 1, CPU: resource.Cores(n)}
}

func plainOf(a amounts) document {
	out := document{}
	for name, amount := range a {
		out[name] = amount
	}
	return out
}
