package fairness

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/cmd/weir/internal/simulate"
	"weir/scheduling"
	"weir/scheduling/pooltree"
)

// scenarios are many of each kind.
func scenarios(t *testing.T) []Scenario {
	t.Helper()
	var all []Scenario
	for _, seed := range Seeds(3, 20*len(Kinds)) {
		s, err := New(seed)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// special is what is to be found in scenarios of a kind, and in others only if they are mixed.
var special = map[string]func(f *simulate.File) bool{
	"guarantees": anyPool(func(o pooltree.PoolOptions) bool { return !o.StrongGuarantee.IsZero() }),
	"burst":      anyPool(func(o pooltree.PoolOptions) bool { return o.Guarantee() == pooltree.Burst }),
	"relaxed":    anyPool(func(o pooltree.PoolOptions) bool { return o.Guarantee() == pooltree.Relaxed }),
	"limits":     anyPool(func(o pooltree.PoolOptions) bool { return o.ResourceLimits != nil || o.MaxShareRatio != nil }),
	"fifo":       anyPool(func(o pooltree.PoolOptions) bool { return o.Mode != nil && *o.Mode == pooltree.FIFO }),
	"large jobs": func(f *simulate.File) bool {
		return slices.ContainsFunc(f.Workloads, func(w *simulate.Workload) bool { return w.Job.CPU.Draw(nil) > 2 })
	},
	"one-job operations": func(f *simulate.File) bool {
		return slices.ContainsFunc(f.Workloads, func(w *simulate.Workload) bool { return w.Arrivals.Every.Duration > 0 })
	},
	"node failures": func(f *simulate.File) bool {
		return slices.ContainsFunc(f.Failures, func(x *simulate.Failure) bool { return *x.Nodes > 0 })
	},
	"leader changes": func(f *simulate.File) bool {
		return slices.ContainsFunc(f.Failures, func(x *simulate.Failure) bool { return *x.Leader })
	},
}

func anyPool(is func(o pooltree.PoolOptions) bool) func(*simulate.File) bool {
	return func(f *simulate.File) bool {
		return slices.ContainsFunc(f.Pools.Pools(), func(p pooltree.Pool) bool { return is(p.Options) })
	}
}

// TestScenariosAreOfTheirKinds: most have what their kind is about, and no other has.
func TestScenariosAreOfTheirKinds(t *testing.T) {
	found, mixed, depths := map[string]int{}, map[string]int{}, map[int]int{}
	for _, s := range scenarios(t) {
		leaves := 0
		for _, p := range s.File.Pools.Pools() {
			path, err := s.File.Pools.Path(p.Name)
			if err != nil {
				t.Fatal(err)
			}
			depths[len(path)]++
			if len(s.File.Pools.Children(p.Name)) == 0 {
				leaves++
			}
		}
		if leaves < 2 || leaves > 11 || s.File.Duration < time.Hour || s.File.Duration > 3*time.Hour {
			t.Errorf("scenario %d has %d leaves and %v, want 2 to 11, and 1h to 3h", s.Seed, leaves, s.File.Duration)
		}
		for kind, has := range special {
			switch {
			case !has(s.File):
			case s.Kind == kind:
				found[kind]++
			case s.Kind == "mixed":
				mixed[kind]++
			default:
				t.Errorf("scenario %d is %s, and has %s", s.Seed, s.Kind, kind)
			}
		}
	}
	for kind := range special {
		if found[kind] < 14 || mixed[kind] == 0 {
			t.Errorf("%d of 20 scenarios of %s have what they are about, of 20 mixed ones %d", found[kind], kind, mixed[kind])
		}
	}
	if len(depths) < 3 {
		t.Errorf("pools by depth: %v, want three levels", depths)
	}
}

// TestEqualSeedsAreEqualScenarios, and equal outcomes.
func TestEqualSeedsAreEqualScenarios(t *testing.T) {
	first, err := New(5)
	if err != nil {
		t.Fatal(err)
	}
	again, err := New(5)
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(5 + uint64(len(Kinds)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Text, again.Text) || bytes.Equal(first.Text, other.Text) || first.Kind != other.Kind {
		t.Errorf("seed 5 makes\n%s\nand then\n%s\nanother one of this kind\n%s", first.Text, again.Text, other.Text)
	}
}

func TestRunsCanBeGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, err := RunAll(ctx, Seeds(1, 1000), func(int) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was given up", err)
	}
}

// TestLargeJobsMayFindRoom: where a job is larger than half a node, aggressive starvation is on,
// no operation is graceful, and such jobs last for an eighth of the time at most.
func TestLargeJobsMayFindRoom(t *testing.T) {
	large, without := 0, 0
	chance := rand.New(rand.NewPCG(1, 1))
	for _, s := range scenarios(t) {
		node := s.File.Nodes[0].Resources.CPU
		isLarge := func(w *simulate.Workload) bool { return 2*w.Job.CPU.Draw(nil) > float64(node)/100 }
		found := slices.ContainsFunc(s.File.Workloads, isLarge)
		if slices.ContainsFunc(s.File.Workloads, func(w *simulate.Workload) bool {
			return isLarge(w) && w.Job.Length.Draw(chance) > s.File.Duration.Seconds()/8
		}) {
			t.Errorf("scenario %d has large jobs that last too long", s.Seed)
		}
		e, err := s.File.Pools.Effective(scheduling.RootPool)
		switch {
		case err != nil:
			t.Fatal(err)
		case found && (!e.Starvation.EnableAggressive || slices.ContainsFunc(s.File.Workloads, func(w *simulate.Workload) bool { return w.Options.PreemptionMode != nil })):
			t.Errorf("scenario %d has jobs that find no room", s.Seed)
		case found:
			large++
		case !e.Starvation.EnableAggressive:
			without++
		}
	}
	if large < 10 || without < 50 {
		t.Errorf("%d scenarios with large jobs, %d without aggressive starvation, want at least 10 and 50", large, without)
	}
}
