package pooltree_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

func TestPreemptionDefaults(t *testing.T) {
	tree := build(t, nil, node{"p", scheduling.RootPool, nil})
	want := pooltree.EffectivePreemption{
		CountCoefficient: 1, AggressiveForGangs: true, PriorityScope: pooltree.OperationAndAncestors, GuaranteePriority: true,
		MaxSchedulableInFIFO: math.MaxInt64,
	}
	if got := tree.Settings().Preemption; got != want {
		t.Errorf("tree: %+v, want %+v", got, want)
	}
	p, err := tree.Effective("p")
	if err != nil {
		t.Fatal(err)
	}
	if want := (pooltree.EffectivePoolPreemption{AllowNormal: true, AllowAggressive: true, RateLimit: pooltree.NoRateLimit}); p.Preemption != want {
		t.Errorf("pool: %+v, want %+v", p.Preemption, want)
	}
	op := pooltree.OperationOptions{}.Effective(p)
	notice := pooltree.EffectiveNotice{PreemptionTimeout: 15 * time.Second, GracefulTimeout: 10 * time.Minute}
	if op.Starvation.EffectiveNotice != notice || op.Graceful || op.Starvation.WaitingTimeout != 30*time.Second {
		t.Errorf("operation: %+v", op)
	}
	packing := pooltree.EffectivePacking{
		Metric: pooltree.PackByAngleLength, MaxBetter: 2, AbsoluteTolerance: 0.05, RelativeTolerance: 1.5, MaxWindowSize: 10, MaxHeartbeatAge: time.Hour,
	}
	if op.Packing != packing {
		t.Errorf("packing: %+v, want %+v", op.Packing, packing)
	}
}

// TestTreePreemption sets each option of a tree by each of its names.
func TestTreePreemption(t *testing.T) {
	cases := map[string]struct {
		value   any
		want    func(pooltree.EffectivePreemption) bool
		wantErr string
	}{
		"allocation_count_preemption_timeout_coefficient": {value: 10.0, want: func(p pooltree.EffectivePreemption) bool { return p.CountCoefficient == 10 }},
		"job_count_preemption_timeout_coefficient":        {value: 0.5, wantErr: "allocation_count_preemption_timeout_coefficient: 0.5 is not a number of at least 1"},
		"allow_preemption_from_starving_operations":       {value: true, want: func(p pooltree.EffectivePreemption) bool { return p.FromStarving }},
		"consider_allocation_on_fair_share_bound_preemptible": {value: true,
			want: func(p pooltree.EffectivePreemption) bool { return p.OnBoundPreemptible }},
		"allow_aggressive_preemption_for_gang_operations": {value: false, want: func(p pooltree.EffectivePreemption) bool { return !p.AggressiveForGangs }},
		"scheduling_preemption_priority_scope": {value: "operation-only",
			want: func(p pooltree.EffectivePreemption) bool { return p.PriorityScope == pooltree.OperationOnly }},
		"enable_guarantee_priority_scheduling": {value: false, want: func(p pooltree.EffectivePreemption) bool { return !p.GuaranteePriority }},
		"min_spare_allocation_resources_on_node": {value: object{"cpu": 0.5, "user_slots": 1.0},
			want: func(p pooltree.EffectivePreemption) bool {
				return p.MinSpare == resource.Amounts{UserSlots: 1, CPU: 50}
			}},
		"max_schedulable_element_count_in_fifo_pool": {value: 3.0, want: func(p pooltree.EffectivePreemption) bool { return p.MaxSchedulableInFIFO == 3 }},
		"max-schedulable-element-count-in-fifo-pool": {value: -1.0, wantErr: "max_schedulable_element_count_in_fifo_pool: -1 is not a number of at least 0"},
		"scheduling-preemption-priority-scope":       {value: "all", wantErr: `"all" is not one of operation_and_ancestors, operation_only`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := pooltree.ReadTreeOptions(object{name: tc.value})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Settings().Preemption; !tc.want(got) {
				t.Errorf("got %+v", got)
			}
			if again, err := pooltree.ReadTreeOptions(option.Write(o)); err != nil || !reflect.DeepEqual(again, o) {
				t.Errorf("%+v is written and read as %+v, %v", o, again, err)
			}
		})
	}
}

// TestPreemptionIsHandedDown reads what pools say below a tree that says something.
func TestPreemptionIsHandedDown(t *testing.T) {
	tree := build(t, object{"job_interrupt_timeout": "20s", "job_graceful_interrupt_timeout": "5m", "min_run_time": "3s", "waiting_for_resources_on_node_timeout": "1m"},
		node{"a", scheduling.RootPool, object{"allow_normal_preemption": false, "allow_aggressive_starvation_preemption": false,
			"preemption_rate_limit": 6.0, "resource_limits_overcommit_tolerance": object{"cpu": 2.0}, "interruption_timeout": "10s"}},
		node{"b", "a", object{"allow_normal_preemption": true, "allow_aggressive_preemption": true, "min_run_time": "0s"}}, node{"c", "a", nil})
	cases := map[scheduling.PoolName]struct {
		want       pooltree.EffectivePoolPreemption
		wantNotice pooltree.EffectiveNotice
	}{
		"a": {pooltree.EffectivePoolPreemption{RateLimit: 6, LimitTolerance: resource.Amounts{CPU: 200}},
			pooltree.EffectiveNotice{PreemptionTimeout: 10 * time.Second, GracefulTimeout: 5 * time.Minute, MinRunTime: 3 * time.Second}},
		"b": {pooltree.EffectivePoolPreemption{AllowAggressive: true, RateLimit: pooltree.NoRateLimit},
			pooltree.EffectiveNotice{PreemptionTimeout: 10 * time.Second, GracefulTimeout: 5 * time.Minute}},
		"c": {pooltree.EffectivePoolPreemption{RateLimit: pooltree.NoRateLimit},
			pooltree.EffectiveNotice{PreemptionTimeout: 10 * time.Second, GracefulTimeout: 5 * time.Minute, MinRunTime: 3 * time.Second}},
		scheduling.RootPool: {pooltree.EffectivePoolPreemption{AllowNormal: true, AllowAggressive: true, RateLimit: pooltree.NoRateLimit},
			pooltree.EffectiveNotice{PreemptionTimeout: 20 * time.Second, GracefulTimeout: 5 * time.Minute, MinRunTime: 3 * time.Second}},
	}
	for name, tc := range cases {
		t.Run(string(name), func(t *testing.T) {
			e, err := tree.Effective(name)
			if err != nil {
				t.Fatal(err)
			}
			if e.Preemption != tc.want || e.Starvation.EffectiveNotice != tc.wantNotice || e.Starvation.WaitingTimeout != time.Minute {
				t.Errorf("got %+v, %+v; want %+v, %+v", e.Preemption, e.Starvation, tc.want, tc.wantNotice)
			}
			if len(e.Preemption.Document()) != 4 {
				t.Errorf("as a document %v", e.Preemption.Document())
			}
		})
	}
}

func TestPreemptionOfOperations(t *testing.T) {
	cases := map[string]struct {
		document object
		want     func(pooltree.EffectiveOperation) bool
		wantErr  string
	}{
		"graceful": {document: object{"preemption_mode": "graceful"}, want: func(e pooltree.EffectiveOperation) bool {
			return e.Graceful && e.PreemptionMode() == "graceful"
		}},
		"normal":       {document: object{"preemption-mode": "normal"}, want: func(e pooltree.EffectiveOperation) bool { return !e.Graceful && e.PreemptionMode() == "normal" }},
		"unknown mode": {document: object{"preemption_mode": "kind"}, wantErr: `preemption_mode: "kind" is not one of normal, graceful`},
		"times of its own": {document: object{"interruption_timeout": "1m", "allocation_graceful_preemption_timeout": "1h", "min_run_time": "5s"},
			want: func(e pooltree.EffectiveOperation) bool {
				return e.Starvation.EffectiveNotice == pooltree.EffectiveNotice{PreemptionTimeout: time.Minute, GracefulTimeout: time.Hour, MinRunTime: 5 * time.Second}
			}},
		"packing": {document: object{"packing": object{"enable": true, "metric": "angle", "max_better_past_snapshots": 3.0, "absolute_metric_value_tolerance": 0.0,
			"relative_metric_value_tolerance": 1.0, "min_window_size_for_schedule": 4.0, "max_heartbeat_window_size": 5.0, "max_heartbeat_age": "1m"}},
			want: func(e pooltree.EffectiveOperation) bool {
				return e.Packing == pooltree.EffectivePacking{Enable: true, Metric: pooltree.PackByAngle, MaxBetter: 3, RelativeTolerance: 1,
					MinWindowSize: 4, MaxWindowSize: 5, MaxHeartbeatAge: time.Minute} && len(e.Packing.Document()) == 8
			}},
		"packing that takes nothing": {document: object{"packing": object{"max_better_past_snapshots": 0.0}}, wantErr: "packing/max_better_past_snapshots: 0 is not a number of at least 1"},
		"packing without memory":     {document: object{"packing": object{"max_heartbeat_window_size": 0.0}}, wantErr: "packing/max_heartbeat_window_size: 0 is not a number from 1 to 1000"},
		"packing of a narrow window": {document: object{"packing": object{"min_window_size_for_schedule": 11.0}}, wantErr: "11 must be from 0 to max_heartbeat_window_size (10)"},
		"packing of a moment":        {document: object{"packing": object{"max_heartbeat_age": "0s"}}, wantErr: "packing/max_heartbeat_age: 0s is too short: it must be more than 0s"},
		"packing by worse nodes":     {document: object{"packing": object{"relative_metric_value_tolerance": 0.5}}, wantErr: "0.5 is not a number of at least 1"},
		"negative tolerance":         {document: object{"packing": object{"absolute_metric_value_tolerance": -1.0}}, wantErr: "-1 is not a number of at least 0"},
		"negative time":              {document: object{"min_run_time": "-1s"}, wantErr: "min_run_time: -1s is negative"},
	}
	pool, err := build(t, nil, node{"p", scheduling.RootPool, nil}).Effective("p")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := pooltree.ReadOperationOptions(tc.document)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Effective(pool); !tc.want(got) {
				t.Errorf("got %+v", got)
			}
			if again, err := pooltree.ReadOperationOptions(option.Write(o)); err != nil || !reflect.DeepEqual(again, o) {
				t.Errorf("%+v is written and read as %+v, %v", o, again, err)
			}
		})
	}
	if _, err := pooltree.ReadPoolOptions(object{"preemption_rate_limit": -1.0}); err == nil || !strings.Contains(err.Error(), "preemption_rate_limit: -1 is not a number of at least 0") {
		t.Errorf("a negative rate limit: %v", err)
	}
}
