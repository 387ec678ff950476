package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/option"
)

// examples are the simulations that come with Weir.
func examples(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "examples", "simulations", "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d examples, %v", len(names), err)
	}
	return names
}

// example reads one of them, with some things changed.
func example(t testing.TB, name string, settings ...string) *File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "examples", "simulations", name))
	if err != nil {
		t.Fatal(err)
	}
	var changes Changes
	for _, text := range settings {
		s, err := ReadSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		changes.Set = append(changes.Set, s)
	}
	f, err := Read(data, noFiles, changes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustRun(t testing.TB, f *File) *Result {
	t.Helper()
	r, err := Run(context.Background(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pool returns what a pool got.
func (r *Result) pool(t *testing.T, name string) Pool {
	t.Helper()
	for _, p := range r.Pools {
		if string(p.Name) == name {
			return p
		}
	}
	t.Fatalf("no pool %q", name)
	return Pool{}
}

// TestBurstAndRelaxed: both pools get what integral guarantees promised them, on every
// day; without those the burst pool falls short (G6).
func TestBurstAndRelaxed(t *testing.T) {
	f := example(t, "burst-and-relaxed.yaml", "duration=2d")
	kept, control := mustRun(t, f), mustRun(t, f.Control)
	if len(kept.Days) != 2 {
		t.Fatalf("%d days, want 2", len(kept.Days))
	}
	for i, day := range kept.Days {
		for j, p := range day.Pools {
			other := control.Days[i].Pools[j]
			switch p.Pool {
			case "burst":
				if part := p.UsageCPUSeconds / p.DemandCPUSeconds; part < 0.99 || math.Abs(p.DemandCPUSeconds-86.4e6) > 1e5 {
					t.Errorf("day %d: burst got %v of %v cpu seconds", day.Day, part, p.DemandCPUSeconds)
				}
				if part := other.UsageCPUSeconds / other.DemandCPUSeconds; part > 0.6 {
					t.Errorf("day %d: without integral guarantees burst got %v, want that it falls short", day.Day, part)
				}
			case "relaxed":
				if mean := p.UsageCPUSeconds / 86400; day.Day > 1 && mean < 990 {
					t.Errorf("day %d: relaxed had %v cpu", day.Day, mean)
				}
			}
		}
	}
}

// TestVolumeLasts: 60 s of 1000 cpu are 10 minutes of 100 cpu, or 20 of 50 (G6).
func TestVolumeLasts(t *testing.T) {
	r := mustRun(t, example(t, "volume.yaml"))
	for pool, want := range map[string]struct{ lasts, share float64 }{"ten": {600, 0.1}, "twenty": {1200, 0.05}} {
		got := r.pool(t, pool).Integral
		if math.Abs(got.LastedSeconds/want.lasts-1) > 0.01 || math.Abs(got.GrantedSeconds/60-1) > 0.01 || math.Abs(got.Most-want.share) > 1e-6 {
			t.Errorf("%s: %+v, want %v s of %v", pool, got, want.lasts, want.share)
		}
	}
}

// TestLongStepsCostLittle compares updates as rare as they may be with updates every
// second: pools get the same but for half a percent of the cluster.
func TestLongStepsCostLittle(t *testing.T) {
	for name, settings := range map[string][]string{
		"burst-and-relaxed.yaml": {"duration=1d", "workloads.relaxed.job.length=1h", "volume_tolerance=0.05"},
		"volume.yaml":            {"fair_share_update_period=1s", "options.integral_guarantees.smooth_period=1m"},
	} {
		t.Run(name, func(t *testing.T) {
			rare := mustRun(t, example(t, name, settings...))
			often := mustRun(t, example(t, name, append(settings, "longest_update_period=1s")...))
			for i, p := range rare.Pools {
				if d := math.Abs(p.UsageShare - often.Pools[i].UsageShare); d > 0.005 {
					t.Errorf("pool %s: %v with long steps, %v with short ones", p.Name, p.UsageShare, often.Pools[i].UsageShare)
				}
			}
		})
	}
}

func TestWeightsDivide(t *testing.T) {
	r := mustRun(t, example(t, "weights.yaml", "workloads.five.arrivals.at=[0s]"))
	for pool, want := range map[string]float64{"one": 1. / 8, "two": 2. / 8, "five": 5. / 8} {
		if got := r.pool(t, pool).UsageShare; math.Abs(got-want) > 0.02 {
			t.Errorf("%s had %v, want %v", pool, got, want)
		}
	}
	if r.FairnessError > 0.02 {
		t.Errorf("fairness error %v", r.FairnessError)
	}
}

// TestFIFOEndsSooner: in turn, half of the operations have ended when those that share
// have not.
func TestFIFOEndsSooner(t *testing.T) {
	r := mustRun(t, example(t, "fifo.yaml"))
	if inTurn, together := r.pool(t, "in-turn").OperationTimes.P50, r.pool(t, "together").OperationTimes.P50; inTurn > together*0.8 {
		t.Errorf("half have ended after %v s in turn and %v s together", inTurn, together)
	}
}

// TestStarvingIsHelped: the late operation gets its part after its timeout, by jobs that
// leave in their time; without starvation it gets nothing.
func TestStarvingIsHelped(t *testing.T) {
	f := example(t, "starvation.yaml")
	r, control := mustRun(t, f), mustRun(t, f.Control)
	if wait := r.OperationWaits.Max; wait < 30 || wait > 60 {
		t.Errorf("the late operation had its first job after %v s, want it after its timeout of 30 s", wait)
	}
	// Within the tolerance of 0.8 it does not starve.
	if share := r.pool(t, "late").UsageCPUSeconds / (100 * 60 * 160); share < 0.38 || share > 0.5 {
		t.Errorf("it had %v of the cluster, want near half of it", share)
	}
	if r.Preempted["preemption"] == 0 || r.Jobs.Ended["completed"] == 0 || r.Jobs.Ended["preemption"] >= r.Preempted["preemption"] {
		t.Errorf("told to go %v, ended %v: want jobs that left by themselves", r.Preempted, r.Jobs.Ended)
	}
	if got := control.pool(t, "late").UsageCPUSeconds; got != 0 || control.Preempted["preemption"] != 0 {
		t.Errorf("where nobody starves it had %v cpu seconds", got)
	}
}

// TestFragmentsAreJoined: only aggressive starvation finds place for half a node (P6).
func TestFragmentsAreJoined(t *testing.T) {
	f := example(t, "fragmentation.yaml")
	r, control := mustRun(t, f), mustRun(t, f.Control)
	if got := r.pool(t, "large"); got.UsageCPUSeconds < 5*8*1200-1 || r.Preempted["aggressive_preemption"] == 0 {
		t.Errorf("large had %v cpu seconds, told to go %v", got.UsageCPUSeconds, r.Preempted)
	}
	if got := control.pool(t, "large"); got.UsageCPUSeconds != 0 {
		t.Errorf("not aggressively large had %v cpu seconds", got.UsageCPUSeconds)
	}
}

// failing loses nodes and a leader, with operations that come, are refused, restart, wait
// for their turn and are ended.
const failing = `duration: 6h
nodes: [{count: 20, cpu: 4, memory: 16GiB}]
options: {max_operation_count: 10, max_running_operation_count: 10}
pools:
  ads:
    max_running_operation_count: 3
    integral_guarantees: {guarantee_type: relaxed, resource_flow: {cpu: 20}}
  batch:
workloads:
  ads: {arrivals: {poisson: 5m}, lasts: 1h, jobs: {uniform: [1, 60]}, job: {cpu: {uniform: [0.5, 2]}, memory: {empirical: [1GiB, 2GiB]}, length: {exponential: 4m}}}
  batch: {arrivals: {every: 2h}, jobs: 100, lasts: 3h, job: {cpu: 1, memory: 1GiB, length: 10m, restart: true}, options: {preemption_mode: graceful}, interruption: {leaves_after: 5s}}
failures:
  - {at: 1h, nodes: 5, back_after: 30m}
  - {at: 2h, leader: true, gap: 1m}
  - {at: 3h, nodes: 20, back_after: 1m}
`

func TestFailuresAreSurvived(t *testing.T) {
	f := mustRead(t, failing, Changes{})
	w, err := newWorld(f)
	if err != nil {
		t.Fatal(err)
	}
	r := run{world: w, checkpoints: f.losesLeaders()}
	if err := r.all(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.state.Verify(); err != nil {
		t.Error(err)
	}
	if w.state.Term().GetTerm() != 2 {
		t.Errorf("term %d, want the second leader's", w.state.Term().GetTerm())
	}
	got := r.result(0)
	if got.Jobs.Ended["node_offline"] == 0 || got.Jobs.Ended["operation_completed"] == 0 || got.Operations.Refused == 0 || got.Operations.RefusedBecause == "" || got.Operations.Ended == 0 {
		t.Errorf("ended %v, operations %+v", got.Jobs.Ended, got.Operations)
	}
	running, pending := int64(0), int64(0)
	for _, op := range w.operations {
		running, pending = running+int64(op.running), pending+waiting(op)
	}
	if running != got.Jobs.Running || int(running) != len(w.state.Allocations()) || pending != got.Jobs.Pending {
		t.Errorf("%d jobs run and %d wait, the meter says %+v, the state %d", running, pending, got.Jobs, len(w.state.Allocations()))
	}
	// All that was used is what the pools used.
	if sum := got.pool(t, "ads").UsageCPUSeconds + got.pool(t, "batch").UsageCPUSeconds; math.Abs(sum-w.meter.root.used.of(1)) > 1 {
		t.Errorf("pools used %v, all together %v", sum, w.meter.root.used.of(1))
	}
}

// TestEqualSeedsAreEqualResults compares all that is written, to the byte.
func TestEqualSeedsAreEqualResults(t *testing.T) {
	written := func(seed string) []byte {
		s, err := ReadSetting("seed=" + seed)
		if err != nil {
			t.Fatal(err)
		}
		f := mustRead(t, failing, Changes{Set: []*option.Value{s}})
		r := mustRun(t, f)
		r.Took = 0
		all, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := errors.Join(r.WriteCSV(dir), r.SaveCharts(dir)); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(names) != 3+2*4 {
			t.Fatalf("files %v, %v", names, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
		}
		return all
	}
	first := written("5")
	if !bytes.Equal(first, written("5")) {
		t.Error("two runs with one seed differ")
	}
	if bytes.Equal(first, written("6")) {
		t.Error("another seed makes no difference")
	}
}

func TestSeries(t *testing.T) {
	f := mustRead(t, small+"control: {pools: {ads: {weight: 1}}}\n", Changes{})
	r := mustRun(t, f)
	r.Control = mustRun(t, f.Control)
	dir := filepath.Join(t.TempDir(), "made")
	if err := r.WriteCSV(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"cluster.csv":     {"time_seconds,cpu_used,", "\n0,10,10,", "\n3600,0,10,0,"},
		"pools.csv":       {"time_seconds,pool,usage_share", "\n0,ads,1,"},
		"days.csv":        {"day,pool,demand_cpu_seconds,usage_cpu_seconds\n1,ads,3000,3000\n"},
		"control-all.csv": nil, "control-days.csv": {"1,ads,3000,3000"},
	} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if (err == nil) != (want != nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range want {
			if !strings.Contains(string(data), part) {
				t.Errorf("%s lacks %q:\n%.300s", name, part, data)
			}
		}
	}
}

// TestExamplesBegin runs the first minutes of every example, big ones too.
func TestExamplesBegin(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "examples", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range examples(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			f := example(t, filepath.Base(name), "duration=1m")
			r := mustRun(t, f)
			if r.Jobs.Started == 0 && f.Workloads[0].Arrivals.From.Duration == 0 {
				t.Error("nothing started")
			}
			if f.Title == "" {
				t.Error("it has no title")
			}
			if !strings.Contains(string(page), "`simulations/"+filepath.Base(name)+"`") {
				t.Error("README.md of the examples does not list it")
			}
		})
	}
}

func TestRunsCanBeGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	told := time.Duration(-1)
	_, err := Run(ctx, example(t, "weights.yaml", "duration=1000d"), func(now time.Duration) {
		told = now
		cancel()
	})
	if !errors.Is(err, context.Canceled) || told < 0 {
		t.Errorf("error %v after progress was told at %v, want that it was given up", err, told)
	}
}

func waiting(op *operation) (n int64) {
	for _, d := range op.demand {
		n += d.pending
	}
	return n
}

// TestOperationsWaitInTheirPools: operations come one after the other where only one may run, also in ephemeral
// subpools and right below the root.
func TestOperationsWaitInTheirPools(t *testing.T) {
	for name, pools := range map[string]string{
		"pool":           "pools: {p: {max_running_operation_count: 1}}",
		"subpools":       "pools: {p: {create_ephemeral_subpools: true, ephemeral_subpool_config: {max_running_operation_count: 1}}}",
		"below the root": "options: {max_running_operation_count: 1, forbid_immediate_operations_in_root: false}",
	} {
		t.Run(name, func(t *testing.T) {
			pool := "p"
			if name == "below the root" {
				pool = string(scheduling.RootPool)
			}
			r := mustRun(t, mustRead(t, fmt.Sprintf(`
duration: 10m
nodes: [{count: 2, cpu: 4, memory: 8GiB}]
%s
workloads:
  a: {pool: %s, arrivals: {at: [0s, 1s, 2s]}, jobs: 2, job: {cpu: 1, length: 10s}}
`, pools, pool), Changes{}))
			if got := r.Operations; got.Ended != 3 || got.Refused > 0 {
				t.Errorf("%+v, want that all 3 have run", got)
			}
		})
	}
}
