package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/engine"
	"weir/scheduling/lifecycle"
)

// TestLimitsOfGraceful lowers what a graceful operation may hold whose jobs have just started: they
// go at once, with the short timeout, whatever else spares jobs.
func TestLimitsOfGraceful(t *testing.T) {
	tree := options{"allocation_preemption_timeout": "7s", "allocation_graceful_preemption_timeout": "9m"}
	spared := options{"preemption_mode": "graceful", "min_run_time": "1h"}
	for name, tc := range map[string]struct {
		lower func(d *drive)
		kind  lifecycle.PreemptionKind
	}{
		"its own limits": {func(d *drive) {
			limited := options{"preemption_mode": "graceful", "min_run_time": "1h", "resource_limits": options{"cpu": 3.0}}
			must(d.t, d.SetOperation(d.record("service", "a", limited)))
		}, lifecycle.ResourceLimitsViolated},
		"those of its pool": {func(d *drive) {
			d.tree(tree, map[scheduling.PoolName]pool{"a": {options: options{"preemption_rate_limit": 1.0, "resource_limits": options{"cpu": 3.0}}}})
		}, lifecycle.ResourceLimitsViolated},
		"its node": {func(d *drive) { must(d.t, d.SetNode("n", slotsOf(3), true)) }, lifecycle.ResourceOvercommit},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, tree, map[scheduling.PoolName]pool{"a": {options: options{"preemption_rate_limit": 1.0}}})
			d.node("n", 8)
			d.wants("service", "a", 6, slotsOf(1), spared)
			d.pass(2*time.Second, time.Second, "n")
			d.wantRuns(runs{"service": 6})
			d.takes = time.Hour
			tc.lower(d)
			d.pass(20*time.Second, time.Second, "n")
			if len(d.victims) != 3 {
				t.Fatalf("preempted %+v, want 3", d.victims)
			}
			for _, v := range d.victims {
				if v.Kind != tc.kind || v.Timeout != 7*time.Second {
					t.Errorf("preempted %+v, want %s within 7 s", v, tc.kind)
				}
			}
		})
	}
}

// TestHasten lowers limits while jobs leave gracefully, with minutes to go: as many as have to be
// are gone within the short timeout, and no more.
func TestHasten(t *testing.T) {
	tree := options{"allocation_preemption_timeout": "7s", "allocation_graceful_preemption_timeout": "9m"}
	for name, tc := range map[string]struct {
		lower func(d *drive)
		kind  lifecycle.PreemptionKind
		want  int
	}{
		"limits": {func(d *drive) {
			must(d.t, d.SetOperation(d.record("service", "a", options{"preemption_mode": "graceful", "resource_limits": options{"cpu": 6.0}})))
		}, lifecycle.ResourceLimitsViolated, 2},
		"limits that hold with them": {func(d *drive) {
			must(d.t, d.SetOperation(d.record("service", "a", options{"preemption_mode": "graceful", "resource_limits": options{"cpu": 8.0}})))
		}, lifecycle.ResourceLimitsViolated, 0},
		"a node": {func(d *drive) { must(d.t, d.SetNode("n", slotsOf(5), true)) }, lifecycle.ResourceOvercommit, 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := service(t, tree, graceful)
			d.takes = time.Hour
			d.pass(2*time.Second, time.Second, "n")
			if got := d.kinds()[lifecycle.GracefulPreemption]; got != 4 {
				t.Fatalf("preempted %+v, want 4 that leave gracefully", d.victims)
			}
			tc.lower(d)
			before := len(d.victims)
			d.pass(30*time.Second, time.Second, "n")
			var hastened []engine.Preempt
			for _, v := range d.victims[before:] {
				if v.Kind != lifecycle.GracefulPreemption {
					hastened = append(hastened, v)
				}
			}
			if len(hastened) != tc.want || tc.want > 0 && (hastened[0].Kind != tc.kind || hastened[0].Timeout != 7*time.Second) {
				t.Fatalf("preempted %+v after that, want %d with the short timeout", d.victims[before:], tc.want)
			}
			if gone := d.pending["service"] - 4; gone != int64(tc.want) {
				t.Errorf("%d have gone, want %d", gone, tc.want)
			}
		})
	}
}
