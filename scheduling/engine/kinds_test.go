package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/resource"
)

// TestPoolsOfSeveralKinds: a pool that has its gpus gets its cpu too, be it in subpools or in
// operations, and no more than that while it lacks gpus that it cannot have.
func TestPoolsOfSeveralKinds(t *testing.T) {
	gpu := resource.Amounts{UserSlots: 1, CPU: 100, GPU: 1}
	for name, tc := range map[string]struct {
		cpu, gpu scheduling.PoolName
		// held are the gpus that somebody else cannot lose.
		held       int64
		want, gpus int
	}{
		"in subpools":                 {"mix-cpu", "mix-gpu", 0, 18, 2},
		"in operations":               {"mix", "mix", 0, 18, 2},
		"with gpus that are not free": {"mix", "mix", 4, 17, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pools := map[scheduling.PoolName]pool{"mix": {}, "mix-cpu": {parent: "mix"}, "mix-gpu": {parent: "mix"}, "other": {},
				"held": {options: options{"allow_normal_preemption": false, "weight": 0.1}}}
			if tc.cpu == "mix" {
				delete(pools, "mix-cpu")
				delete(pools, "mix-gpu")
			}
			d := newDrive(t, soon(nil), pools)
			d.node("n", 36)
			must(t, d.SetNode("g", resource.Amounts{UserSlots: 4, CPU: 400, GPU: 4}, true))
			d.wants("held", "held", tc.held, gpu, nil)
			d.pass(2*time.Second, time.Second, "g")
			d.wants("gpus", tc.gpu, 100, gpu, nil)
			d.pass(2*time.Second, time.Second, "g")
			d.wants("other", "other", 100, slotsOf(1), nil)
			d.pass(2*time.Second, time.Second, "n", "g")
			d.wants("cpus", tc.cpu, 100, slotsOf(1), nil)
			d.pass(5*time.Minute, time.Second, "n", "g")
			if got := d.runs(); got["cpus"] != tc.want || got["gpus"] != tc.gpus {
				t.Errorf("%v run, want %d on cpus and %d on gpus", got, tc.want, tc.gpus)
			}
		})
	}
}

// TestGuaranteesOfSeveralKinds: a pool that uses more cpu than it is guaranteed does not lose the
// gpus that it is guaranteed.
func TestGuaranteesOfSeveralKinds(t *testing.T) {
	gpu := resource.Amounts{UserSlots: 1, CPU: 100, GPU: 1}
	d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{
		"sure":  {options: options{"strong_guarantee_resources": options{"user_slots": 20.0, "cpu": 20.0, "gpu": 2.0}}},
		"other": {}, "held": {options: options{"allow_normal_preemption": false, "weight": 0.01}},
	})
	d.node("n", 36)
	must(t, d.SetNode("g", resource.Amounts{UserSlots: 4, CPU: 400, GPU: 4}, true))
	d.wants("held", "held", 2, gpu, nil)
	d.wants("gpus", "sure", 2, gpu, nil)
	d.pass(4*time.Second, time.Second, "g")
	d.wants("cpus", "sure", 100, slotsOf(1), nil)
	d.pass(2*time.Second, time.Second, "n", "g")
	d.wants("more", "sure", 100, gpu, options{"fair_share_starvation_timeout": "3h", "weight": 20.0})
	d.wants("other", "other", 100, gpu, nil)
	d.pass(10*time.Minute, time.Second, "n", "g")
	if got := d.runs(); got["gpus"]+got["more"] < 2 {
		t.Errorf("%v run, want 2 gpus of the pool that is guaranteed them", got)
	}
}
