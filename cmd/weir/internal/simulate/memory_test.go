package simulate

import (
	"strings"
	"testing"
)

// TestMemoryIsLearned: what is reserved comes down to what jobs use, so that more of them
// run at once; the few that use much are aborted where a node has no more, run again with
// what they need, and complete.
func TestMemoryIsLearned(t *testing.T) {
	const file = `
duration: 4h
nodes: [{count: 4, cpu: 64, memory: 16GiB}]
workloads:
  w: {jobs: 1500, job: {memory_limit: 1GiB, memory_used: {uniform: [180MiB, 220MiB]}, length: {uniform: [1m, 3m]}}}
`
	f, err := Read([]byte(file), noFiles, Changes{})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, f)
	if r.Jobs.Ended["completed"] != 1500 || r.Memory == nil || r.Memory.Overdrafts != 0 {
		t.Fatalf("ended %v, memory %+v", r.Jobs.Ended, r.Memory)
	}
	// Half of the limit and what a proxy is thought to need at first, and the 95th percentile of what is used after the first have ended.
	if part := r.Memory.Reserved / r.Memory.Limit; part < 0.22 || part > 0.30 {
		t.Errorf("%.0f%% of the limits were reserved, want little more than 22%%", 100*part)
	}
	exact, err := Read([]byte(strings.Replace(file, "memory_limit: 1GiB, memory_used: {uniform: [180MiB, 220MiB]}", "memory: 1GiB", 1)), noFiles, Changes{})
	if err != nil {
		t.Fatal(err)
	}
	if without := mustRun(t, exact); without.Memory != nil || without.JobWaits.P95 < 2*r.JobWaits.P95 {
		t.Errorf("jobs wait %.0f s when their reserve is learned, %.0f s when it is the limit", r.JobWaits.P95, without.JobWaits.P95)
	}
}

// TestOverdraft: of jobs of which some use much, those alone are aborted, and run again.
func TestOverdraft(t *testing.T) {
	f, err := Read([]byte(`
duration: 12h
nodes: [{count: 4, cpu: 64, memory: 8GiB}]
workloads:
  w:
    jobs: 2000
    job: {memory_limit: 1GiB, length: {uniform: [1m, 3m]}, memory_used: {empirical: [{value: 200MiB, weight: 98}, {value: 900MiB, weight: 2}]}}
failures: [{at: 20m, leader: true}]
`), noFiles, Changes{})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, f)
	large := r.Jobs.Ended["resource_overdraft"]
	if r.Jobs.Ended["completed"] != 2000 || large == 0 || large > 60 || large != r.Memory.Overdrafts {
		t.Errorf("ended %v, memory %+v; want 2000 completed, and few aborted of some 40 that use much", r.Jobs.Ended, r.Memory)
	}
	if len(r.Jobs.Ended) != 2 {
		t.Errorf("ended %v, want no other ends", r.Jobs.Ended)
	}
}

// TestGangStartsTogether: among small jobs that fill the cluster, all jobs of a gang start
// at one time, and so they do after a node was lost.
func TestGangStartsTogether(t *testing.T) {
	f, err := Read([]byte(`
duration: 6h
nodes: [{count: 3, cpu: 4, user_slots: 4, memory: 16GiB}]
options: {fair_share_starvation_timeout: 1m}
pools: {small: {}, gang: {}}
workloads:
  small: {jobs: 600, job: {length: {uniform: [1m, 9m]}}}
  gang: {arrivals: {at: [10m]}, jobs: 7, gang_options: {size: 6}, job: {length: 30m}}
failures: [{at: 30m, nodes: 1, back_after: 10m}]
`), noFiles, Changes{})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, f)
	if r.Jobs.Ended["operation_incarnation_changed"] == 0 || r.Operations.Ended != 2 {
		t.Errorf("%+v ended %v, want a gang that began anew and completed", r.Operations, r.Jobs.Ended)
	}
}
