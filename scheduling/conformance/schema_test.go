package conformance_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// head is what every case has.
type head struct {
	Name       string          `json:"name"`
	Category   string          `json:"category"`
	Source     json.RawMessage `json:"source"`
	SourceKind string          `json:"source_kind"`
	Version    string          `json:"version"`
	Notes      json.RawMessage `json:"notes"`
	Tolerance  tolerance       `json:"tolerance"`
}

// testCase is a case about a tree; the fields are those of the files.
type testCase struct {
	head
	ExactAtHome  []string                     `json:"exact_in_source"`
	Total        amounts                      `json:"total_resources"`
	Elapsed      *float64                     `json:"elapsed_since_previous_update_seconds"`
	SmoothPeriod *float64                     `json:"smooth_period_seconds"`
	Options      options                      `json:"options"`
	RawMatrix    json.RawMessage              `json:"options_matrix"`
	Pools        []poolCase                   `json:"pools"`
	Operations   []operationCase              `json:"operations"`
	Generator    *generatorCase               `json:"operations_generator"`
	Prior        []priorUpdate                `json:"prior_updates"`
	NoUpdate     bool                         `json:"no_update"`
	Nodes        []nodeCase                   `json:"nodes"`
	Pending      map[string]jobsCase          `json:"pending_allocations"`
	Config       config                       `json:"config"`
	TreeConfig   config                       `json:"tree_config"`
	OfOperations map[string]document          `json:"operation_options"`
	Running      map[string][]allocationsCase `json:"running_allocations"`
	Timeline     []momentCase                 `json:"timeline"`
	HeapSizes    []int                        `json:"min_child_heap_sizes"`
	Instant      map[string]amounts           `json:"instant_usage"`
	Expect       expectation                  `json:"expect"`
	Derived      *derivedExpectation          `json:"derived_expect"`
}

// momentCase is a time, from the begin of the case, at which there is an update.
type momentCase struct {
	At     float64 `json:"at_seconds"`
	Update bool    `json:"update"`
}

// allocationsCase is so many allocations that are alike.
type allocationsCase struct {
	Count     int     `json:"count"`
	Resources amounts `json:"resources"`
}

// amounts are resources by name; cpu may have decimals, and 1e9 and the like are
// numbers too.
type amounts map[string]float64

// UnmarshalJSON replaces what is there: an override does not add to it.
func (a *amounts) UnmarshalJSON(content []byte) error {
	var all map[string]float64
	if err := strict(content, &all); err != nil {
		return err
	}
	*a = all
	return nil
}

func (a amounts) exact() (resource.Amounts, error) { return resource.FromMap(a) }

func (a amounts) named() (fairshare.Guarantee, error) {
	exact, err := a.exact()
	g := fairshare.Guarantee{Amounts: exact}
	for name := range a {
		if k, err := resource.ParseKind(name); err == nil {
			g.Named[k] = true
		}
	}
	return g, err
}

// options are settings of the tree by name.
type options map[string]bool

type poolCase struct {
	ID                 string        `json:"id"`
	Parent             string        `json:"parent"`
	Mode               string        `json:"mode"`
	Weight             *float64      `json:"weight"`
	StrongGuarantee    amounts       `json:"strong_guarantee_resources"`
	Limits             amounts       `json:"resource_limits"`
	MaxShareRatio      *float64      `json:"max_share_ratio"`
	Integral           *integralCase `json:"integral_guarantees"`
	ComputePromised    bool          `json:"compute_promised_guarantee_fair_share"`
	FIFOReordering     *bool         `json:"fifo_reordering"`
	GangStep           *bool         `json:"enable_step_function_for_gang_operations"`
	PriorityAdjustment bool          `json:"enable_priority_strong_guarantee_adjustment"`
	PriorityDonor      bool          `json:"enable_priority_strong_guarantee_adjustment_donorship"`
	DistributesFree    *bool         `json:"should_distribute_free_volume_among_children"`
	TagFilter          string        `json:"scheduling_tag_filter"`
	// Truncates is of legacy cases; here it may only be false.
	Truncates bool `json:"fair_share_truncation_in_fifo"`
	// Settings are options of starvation and preemption, by their names.
	Settings document `json:"-"`
}

// UnmarshalJSON takes the fields that it does not know for settings.
func (p *poolCase) UnmarshalJSON(content []byte) error {
	type plain poolCase
	return withSettings(content, (*plain)(p), &p.Settings)
}

type integralCase struct {
	Type        string             `json:"guarantee_type"`
	Flow        amounts            `json:"resource_flow"`
	Burst       amounts            `json:"burst_guarantee_resources"`
	Multiplier  *float64           `json:"relaxed_share_multiplier_limit"`
	AcceptsFree *bool              `json:"can_accept_free_volume"`
	Volume      map[string]float64 `json:"initial_accumulated_volume"`
}

type operationCase struct {
	ID        string   `json:"id"`
	Parent    string   `json:"parent"`
	Weight    *float64 `json:"weight"`
	Demand    amounts  `json:"demand"`
	Usage     amounts  `json:"usage"`
	Gang      bool     `json:"gang"`
	Limits    amounts  `json:"resource_limits"`
	MinNeeded amounts  `json:"min_needed_resources"`
	TagFilter string   `json:"scheduling_tag_filter"`
	Settings  document `json:"-"`
}

// UnmarshalJSON takes the fields that it does not know for settings.
func (o *operationCase) UnmarshalJSON(content []byte) error {
	type plain operationCase
	return withSettings(content, (*plain)(o), &o.Settings)
}

// generatorCase makes operations that are all alike; {i} or %d in the pattern is
// their number, from 0.
type generatorCase struct {
	Count   int             `json:"count"`
	Pattern string          `json:"id_pattern"`
	Parent  string          `json:"parent"`
	Weight  json.RawMessage `json:"weight"`
	Demand  amounts         `json:"demand"`
	Usage   amounts         `json:"usage"`
	Gang    bool            `json:"gang"`
	Limits  amounts         `json:"resource_limits"`
}

type priorUpdate struct {
	Elapsed            *float64                   `json:"elapsed_since_previous_update_seconds"`
	Absent             []string                   `json:"absent_operations"`
	PoolOverrides      map[string]json.RawMessage `json:"pool_overrides"`
	OperationOverrides map[string]json.RawMessage `json:"operation_overrides"`
	Options            options                    `json:"options"`
}

type nodeCase struct {
	Count     *int     `json:"count"`
	Tags      []string `json:"tags"`
	Resources amounts  `json:"resources"`
}

type jobsCase struct {
	Count     int64   `json:"count"`
	Resources amounts `json:"resources"`
}

type expectation struct {
	Elements      map[string]map[string]json.RawMessage `json:"elements"`
	Volumes       map[string]map[string]float64         `json:"accumulated_volumes"`
	RatioVolumes  map[string]float64                    `json:"accumulated_resource_ratio_volume"`
	ErrorsContain []int                                 `json:"errors_contain"`
	ErrorsAbsent  []int                                 `json:"errors_absent"`
	Properties    []property                            `json:"properties"`
	TagLimits     map[string]amounts                    `json:"scheduling_tag_filter_resource_limits"`
	Indexes       map[string]int                        `json:"scheduling_index"`
	High          []string                              `json:"high_priority_operations"`
	Medium        []string                              `json:"medium_priority_operations"`
	// Effective are settings that hold, by their names and then by element.
	Effective document `json:"-"`
}

// UnmarshalJSON takes the fields that it does not know for settings that hold.
func (e *expectation) UnmarshalJSON(content []byte) error {
	type plain expectation
	return withSettings(content, (*plain)(e), &e.Effective)
}

type derivedExpectation struct {
	Elements  map[string]map[string]json.RawMessage `json:"elements"`
	Tolerance tolerance                             `json:"tolerance"`
	Note      string                                `json:"note"`
}

type property struct {
	Kind                   string          `json:"kind"`
	Left                   string          `json:"left"`
	Right                  string          `json:"right"`
	Element                string          `json:"element"`
	Field                  string          `json:"field"`
	ImplementationSpecific bool            `json:"implementation_specific"`
	OptionsA               options         `json:"options_a"`
	OptionsB               options         `json:"options_b"`
	Elements               json.RawMessage `json:"elements"`
	Tolerance              float64         `json:"tolerance"`
}

type tolerance struct {
	Abs        float64            `json:"abs"`
	ByResource map[string]float64 `json:"by_resource"`
}

func (t tolerance) of(component string) float64 {
	if eps, ok := t.ByResource[component]; ok {
		return eps
	}
	return t.Abs
}

// matrix returns the sets of options to replay the case with.
func (c *testCase) matrix() ([]options, error) {
	sets := []options{c.Options}
	var matrix map[string][]bool
	if len(c.RawMatrix) > 0 {
		if err := strict(c.RawMatrix, &matrix); err != nil {
			return nil, fmt.Errorf("options_matrix: %w", err)
		}
	}
	for name, values := range matrix {
		var next []options
		for _, set := range sets {
			for _, value := range values {
				next = append(next, set.with(options{name: value}))
			}
		}
		sets = next
	}
	return sets, nil
}

// with returns o with others set over it.
func (o options) with(others options) options {
	all := options{}
	for name, value := range o {
		all[name] = value
	}
	for name, value := range others {
		all[name] = value
	}
	return all
}

// generate adds the operations of the generator to those that are listed.
func (c *testCase) generate() error {
	g := c.Generator
	if g == nil {
		return nil
	}
	for i := range g.Count {
		op := operationCase{
			ID: strings.NewReplacer("{i}", strconv.Itoa(i), "%d", strconv.Itoa(i)).Replace(g.Pattern), Parent: g.Parent,
			Demand: g.Demand, Usage: g.Usage, Gang: g.Gang, Limits: g.Limits,
		}
		if len(g.Weight) > 0 {
			if err := json.Unmarshal(g.Weight, &op.Weight); err != nil {
				return fmt.Errorf("operations_generator: weight: %w", err)
			}
		}
		c.Operations = append(c.Operations, op)
	}
	return nil
}
