package pooltree_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

type object = map[string]any

func TestPoolOptions(t *testing.T) {
	cases := map[string]struct {
		document object
		// wantErr is part of the error; "": there is none.
		wantErr string
	}{
		"nothing set":                     {nil, ""},
		"share ratio above 1":             {object{"max_share_ratio": 1.5}, "max_share_ratio: 1.5 is not a number from 0 to 1"},
		"mode by its other name":          {object{"mode": "fair-share"}, ""},
		"unknown mode":                    {object{"mode": "lifo"}, `mode: "lifo" is not one of fair_share, fifo`},
		"guarantee by its other name":     {object{"min_share_resources": object{"cpu": 10.0}}, ""},
		"guarantee twice":                 {object{"min_share_resources": object{}, "strong_guarantee_resources": object{}}, "is the same option"},
		"unknown resource":                {object{"resource_limits": object{"disk": 1.0}}, `resource_limits: unknown resource "disk"`},
		"negative resource":               {object{"resource_limits": object{"cpu": -1.0}}, "resource_limits: resource cpu: negative amount -1"},
		"memory with a unit":              {object{"resource_limits": object{"memory": "4GiB"}}, ""},
		"memory with an unknown unit":     {object{"resource_limits": object{"memory": "4 bananas"}}, "resource_limits: resource memory"},
		"cpu with a unit":                 {object{"resource_limits": object{"cpu": "4GiB"}}, `resource cpu: "4GiB" is not a number`},
		"filter with a fault":             {object{"scheduling_tag_filter": "a &"}, `scheduling_tag_filter: node filter "a &", position 4`},
		"burst pool":                      {object{"integral_guarantees": object{"guarantee_type": "burst", "resource_flow": object{"cpu": 1.0}, "burst_guarantee_resources": object{"cpu": 2.0}}}, ""},
		"burst pool without burst":        {object{"integral_guarantees": object{"guarantee_type": "burst", "resource_flow": object{"cpu": 1.0}}}, "integral_guarantees/burst_guarantee_resources: a burst pool must have a burst guarantee: set it"},
		"burst settings of a relaxed one": {object{"integral_guarantees": object{"guarantee_type": "relaxed", "resource_flow": object{"cpu": 1.0}, "burst_guarantee_resources": object{"cpu": 2.0}}}, "only a burst pool has this"},
		"relaxed pool without flow":       {object{"integral_guarantees": object{"guarantee_type": "relaxed"}}, "a relaxed pool must have a flow"},
		"relaxed multiplier out of range": {object{"integral_guarantees": object{"relaxed_share_multiplier_limit": 11.0}}, "11 is not a number from 1 to 10"},
		"sort key twice":                  {object{"fifo_sort_parameters": []any{"weight", "weight"}}, "weight is named twice"},
		"no sort key":                     {object{"fifo_sort_parameters": []any{}}, "an empty list sorts nothing"},
		"subpools of a FIFO pool":         {object{"mode": "fifo", "create_ephemeral_subpools": true}, ""},
		"tolerance above 1":               {object{"fair_share_starvation_tolerance": 2.0}, "fair_share_starvation_tolerance: 2 is not a number from 0 to 1"},
		"unknown setting":                 {object{"wait": 1.0}, "wait: unknown option"},
		"a setting of nodes":              {object{"preemptive-scheduling-backoff": "1s"}, "preemptive-scheduling-backoff: applies to nodes, which belong to no pool: set it for the whole tree (weir tree set)"},
		"resource by two spellings":       {object{"resource_limits": object{"user-slots": 5.0, "user_slots": 3.0}}, "resource_limits: resource user_slots is set twice"},
		"faults of two resources":         {object{"resource_limits": object{"cpu": -1.0, "memory": "x"}}, "resource memory"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := pooltree.ReadPoolOptions(tc.document)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			again, err := pooltree.ReadPoolOptions(option.Write(o))
			if err != nil || !reflect.DeepEqual(again, o) {
				t.Errorf("%+v is written and read as %+v, %v", o, again, err)
			}
		})
	}
}

func TestTreeOptions(t *testing.T) {
	cases := map[string]struct {
		document object
		wantErr  string
	}{
		"aliases": {object{"fair_share_preemption_timeout": "10s", "max_ephemeral_pool_per_user": 2.0, "node_tag_filter": "gpu"}, ""},
		"aggressive timeout below the other": {object{"fair_share_starvation_timeout": "3m"},
			"fair_share_aggressive_starvation_timeout: 2m is less than fair_share_starvation_timeout, 3m"},
		"aggressive threshold above the other": {object{"preemption_satisfaction_threshold": 0.1},
			"aggressive_preemption_satisfaction_threshold: 0.2 must be from 0 to preemption_satisfaction_threshold (0.1)"},
		"capacity of no time": {object{"integral_guarantees": object{"pool_capacity_saturation_period": "0s"}}, "it must be more than 0s"},
		"room for no time":    {object{"gang_timeout": "10ms"}, "gang_timeout: 10ms is too short: the minimum is 1s"},
		"room for ever":       {object{"gang_timeout": "2h"}, "gang_timeout: 2h is too long: the limit is 1h"},
		"multiplier below 1":  {object{"infer_weight_from_guarantees_share_multiplier": 0.5}, "0.5 is not a number from 1 to"},
		"more run than there be": {object{"max_operation_count": 5.0, "max_running_operation_count": 6.0},
			"max_operation_count: 5 is less than max_running_operation_count, 6"},
		"more run in a pool than there be": {object{"max_operation_count_per_pool": 2.0, "max_running_operation_count_per_pool": 3.0},
			"max_operation_count_per_pool: 2 is less than max_running_operation_count_per_pool, 3"},
		"fewer operations than run by default": {object{"max_operation_count": 5.0, "max_operation_count_per_pool": 2.0}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := pooltree.ReadTreeOptions(tc.document)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// TestInheritance reads settings that pools hand down from the tree to the leaves.
func TestInheritance(t *testing.T) {
	tree := build(t, object{"fair_share_starvation_tolerance": 0.7, "max_unpreemptable_running_job_count": 3.0},
		node{"a", scheduling.RootPool, object{"fair_share_starvation_timeout": "10s", "enable_fifo_children_reordering_for_guarantee_utilization": true}},
		node{"b", "a", object{"fair_share_starvation_tolerance": 0.5, "non_preemptible_resource_usage_threshold": object{"cpu": 4.0}}},
		node{"c", "b", nil}, node{"d", "b", object{"max_unpreemptable_running_job_count": 1.0}})
	d, err := tree.Effective("d")
	if err != nil {
		t.Fatal(err)
	}
	if n := d.Starvation.NonPreemptible; n == nil || n.Amounts.UserSlots != 1 || n.Amounts.CPU != resource.Cores(4) {
		t.Errorf("threshold of d: %+v, want its own of slots and that of b", n)
	}
	e, err := tree.Effective("c")
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Starvation; s.FairShareTimeout != 10*time.Second || s.Tolerance != 0.5 || s.AggressiveTimeout != 2*time.Minute {
		t.Errorf("starvation of c: %+v", s)
	}
	if !e.FIFOReordering {
		t.Error("c does not inherit the reordering of its grandparent")
	}
	if n := e.Starvation.NonPreemptible; n == nil || n.Has(resource.UserSlots) || n.Amounts.CPU != resource.Cores(4) {
		t.Errorf("threshold of c: %+v", n)
	}
	a, err := tree.Effective("a")
	if err != nil {
		t.Fatal(err)
	}
	if n := a.Starvation.NonPreemptible; n == nil || n.Amounts.UserSlots != 3 || n.Has(resource.CPU) {
		t.Errorf("threshold of a: %+v", n)
	}
}

// TestEffectiveOfOperations compares what an operation says with what its pool does
// (F.11).
func TestEffectiveOfOperations(t *testing.T) {
	bounds := object{"fair_share_starvation_timeout_lower_bound": "10s", "min_share_preemption_timeout_lower_bound": "5s", "fair_share_starvation_tolerance_upper_bound": 0.9}
	cases := map[string]struct {
		pool, operation object
		want            func(pooltree.EffectiveStarvation) bool
	}{
		"what it does not say is the pool's": {object{"fair_share_starvation_timeout": "9s", "min_share_preemption_timeout": "4s"}, nil,
			func(s pooltree.EffectiveStarvation) bool {
				return s.FairShareTimeout == 9*time.Second && s.MinShareTimeout == 4*time.Second && s.NonPreemptible == nil
			}},
		"longer timeouts": {object{"min_share_preemption_timeout": "4s"}, object{"fair_share_starvation_timeout": "1m", "min_share_preemption_timeout": "5s"},
			func(s pooltree.EffectiveStarvation) bool {
				return s.FairShareTimeout == time.Minute && s.MinShareTimeout == 5*time.Second
			}},
		"shorter ones": {object{"min_share_preemption_timeout": "4s"}, object{"fair_share_starvation_timeout": "1s", "min_share_preemption_timeout": "3s"},
			func(s pooltree.EffectiveStarvation) bool {
				return s.FairShareTimeout == time.Second && s.MinShareTimeout == 3*time.Second && s.AggressiveTimeout == 2*time.Minute
			}},
		"longer than the aggressive timeout": {nil, object{"fair_share_starvation_timeout": "5m"},
			func(s pooltree.EffectiveStarvation) bool {
				return s.FairShareTimeout == 5*time.Minute && s.AggressiveTimeout == 5*time.Minute
			}},
		"a lesser tolerance":  {nil, object{"fair_share_starvation_tolerance": 0.5}, func(s pooltree.EffectiveStarvation) bool { return s.Tolerance == 0.5 }},
		"a greater tolerance": {nil, object{"fair_share_starvation_tolerance": 0.9}, func(s pooltree.EffectiveStarvation) bool { return s.Tolerance == 0.9 }},
		"beyond the bounds of the pool": {bounds, object{"fair_share_starvation_timeout": "2s", "min_share_preemption_timeout": "1s", "fair_share_starvation_tolerance": 1.0},
			func(s pooltree.EffectiveStarvation) bool {
				return s.FairShareTimeout == 10*time.Second && s.MinShareTimeout == 5*time.Second && s.Tolerance == 0.9
			}},
		"within them": {bounds, object{"fair_share_starvation_timeout": "10s", "min_share_preemption_timeout": "6s", "fair_share_starvation_tolerance": 0.85},
			func(s pooltree.EffectiveStarvation) bool {
				return s.FairShareTimeout == 10*time.Second && s.MinShareTimeout == 6*time.Second && s.Tolerance == 0.85
			}},
		"the lesser threshold of each resource": {
			object{"non_preemptible_resource_usage_threshold": object{"cpu": 4.0, "memory": 10.0}},
			object{"non_preemptible_resource_usage_threshold": object{"cpu": 5.0, "memory": 9.0, "gpu": 1.0}},
			func(s pooltree.EffectiveStarvation) bool {
				n := s.NonPreemptible
				return n.Amounts == resource.Amounts{CPU: resource.Cores(4), Memory: 9, GPU: 1} && !n.Has(resource.UserSlots) && n.Has(resource.GPU)
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pool, err := build(t, nil, node{"p", scheduling.RootPool, tc.pool}).Effective("p")
			if err != nil {
				t.Fatal(err)
			}
			o, err := pooltree.ReadOperationOptions(tc.operation)
			if err != nil {
				t.Fatal(err)
			}
			if s := o.Effective(pool).Starvation; !tc.want(s) {
				t.Errorf("got %+v with threshold %+v", s, s.NonPreemptible)
			}
		})
	}
}

// TestBounded: who sets what the pool above does not allow is told, and what holds.
func TestBounded(t *testing.T) {
	tree := build(t, nil,
		node{"a", scheduling.RootPool, object{"fair_share_starvation_timeout_lower_bound": "10s", "fair_share_starvation_tolerance_upper_bound": 0.9}},
		node{"b", "a", object{"min_share_preemption_timeout_lower_bound": "5s", "fair_share_starvation_timeout_lower_bound": "0s"}}, node{"c", "a", nil})
	hasty := object{"fair_share_starvation_timeout": "2s", "min_share_preemption_timeout": "1s", "fair_share_starvation_tolerance": 1.0}
	for pool, want := range map[scheduling.PoolName][]string{
		"a":                 {`fair_share_starvation_timeout 2s: pool "a" allows no less than 10s; 10s applies`, `fair_share_starvation_tolerance 1: pool "a" allows no more than 0.9; 0.9 applies`},
		"b":                 {`min_share_preemption_timeout 1s: pool "b" allows no less than 5s; 5s applies`, `fair_share_starvation_tolerance 1: pool "b" allows no more than 0.9; 0.9 applies`},
		"c":                 {`fair_share_starvation_timeout 2s: pool "c" allows no less than 10s; 10s applies`, `fair_share_starvation_tolerance 1: pool "c" allows no more than 0.9; 0.9 applies`},
		scheduling.RootPool: nil,
	} {
		effective, err := tree.Effective(pool)
		if err != nil {
			t.Fatal(err)
		}
		for document, want := range map[*object][]string{&hasty: want, {"fair_share_starvation_timeout": "10s", "fair_share_starvation_tolerance": 0.5}: nil, {}: nil} {
			o, err := pooltree.ReadOperationOptions(*document)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Bounded(pool, effective); !slices.Equal(got, want) {
				t.Errorf("%v in pool %s: %q, want %q", *document, pool, got, want)
			}
		}
	}
	for wantErr, options := range map[string]object{
		"fair_share_starvation_timeout: 5s is less than fair_share_starvation_timeout_lower_bound, 10s":       {"fair_share_starvation_timeout": "5s"},
		"min_share_preemption_timeout: 15s is less than min_share_preemption_timeout_lower_bound, 20s":        {"min_share_preemption_timeout_lower_bound": "20s"},
		"fair_share_starvation_tolerance: 0.95 is more than fair_share_starvation_tolerance_upper_bound, 0.9": {"fair_share_starvation_tolerance": 0.95},
		"fair_share_starvation_tolerance_upper_bound: 2 is not a number from 0 to 1":                          {"fair_share_starvation_tolerance_upper_bound": 2.0},
	} {
		o, err := pooltree.ReadPoolOptions(options)
		if err == nil {
			_, err = tree.Create(pooltree.Pool{Name: "d", Parent: "a", Options: o})
		}
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("pool with %v: error %v, want %q", options, err, wantErr)
		}
	}
}

func TestGuaranteesFitTheParents(t *testing.T) {
	guarantee := func(resources object) object { return object{"strong_guarantee_resources": resources} }
	flow := object{"integral_guarantees": object{"guarantee_type": "relaxed", "resource_flow": object{"cpu": 1.0}}}
	cases := map[string]struct {
		parent, child, other object
		wantErr              string
	}{
		"they fit":                         {guarantee(object{"cpu": 10.0}), guarantee(object{"cpu": 6.0}), guarantee(object{"cpu": 4.0}), ""},
		"together they do not":             {guarantee(object{"cpu": 10.0}), guarantee(object{"cpu": 6.0}), guarantee(object{"cpu": 4.01}), `pool "p": strong_guarantee_resources/cpu: the pools below it are guaranteed 10.01, but it has only 10`},
		"the parent has none":              {nil, guarantee(object{"cpu": 1.0}), nil, "it has only 0"},
		"what is inferred is not compared": {guarantee(object{"cpu": 10.0}), guarantee(object{"cpu": 6.0, "memory": 1e9}), nil, ""},
		"an explicit zero is":              {guarantee(object{"cpu": 10.0, "memory": 0.0}), guarantee(object{"memory": 5.0}), nil, "strong_guarantee_resources/memory: the pools below it are guaranteed 5B, but it has only 0B"},
		"children may have none":           {object{"allow_children_guarantees": false, "strong_guarantee_resources": object{"cpu": 9.0}}, guarantee(object{"cpu": 1.0}), nil, `allow_children_guarantees is false, but pool "c" below it`},
		"integral below integral":          {flow, flow, nil, ""},
		"FIFO with subpools":               {object{"mode": "fifo"}, nil, object{"mode": "fifo"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tryBuild(t, nil, node{"p", scheduling.RootPool, tc.parent}, node{"c", "p", tc.child}, node{"d", "p", tc.other})
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestOvercommitted(t *testing.T) {
	tree := build(t, nil,
		node{"a", scheduling.RootPool, object{"strong_guarantee_resources": object{"cpu": 6.0, "memory": 10.0}}},
		node{"b", scheduling.RootPool, object{"strong_guarantee_resources": object{"cpu": 5.0}}})
	got := tree.Overcommitted(resource.Amounts{CPU: resource.Cores(10), Memory: 10})
	want := []pooltree.Overcommit{{Resource: resource.CPU, Guaranteed: 1100, Total: 1000}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("overcommitted %+v, want %+v", got, want)
	}
}

// node is a pool of a test's tree.
type node struct {
	name, parent scheduling.PoolName
	options      object
}

func build(t *testing.T, options object, nodes ...node) pooltree.Tree {
	t.Helper()
	tree, err := tryBuild(t, options, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func tryBuild(t *testing.T, options object, nodes ...node) (pooltree.Tree, error) {
	t.Helper()
	o, err := pooltree.ReadTreeOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	var pools []pooltree.Pool
	for _, n := range nodes {
		read, err := pooltree.ReadPoolOptions(n.options)
		if err != nil {
			t.Fatal(err)
		}
		pools = append(pools, pooltree.Pool{Name: n.name, Parent: n.parent, Options: read})
	}
	return pooltree.FromPools(o, pools)
}
