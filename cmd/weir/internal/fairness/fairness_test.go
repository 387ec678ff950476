package fairness

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"weir/cmd/weir/internal/simulate"
)

// TestFairness: clusters of each kind, and no promise that was not kept.
func TestFairness(t *testing.T) {
	outcomes, err := RunAll(context.Background(), Seeds(1, 3*len(Kinds)), nil)
	if err != nil {
		t.Fatal(err)
	}
	hungry, guarantees, waited := 0, 0, 0
	for _, o := range outcomes {
		for _, b := range o.Breaches {
			t.Errorf("scenario %d (%s): %s: %s; weir dev fairness --scenario %d --save scenario.yaml", o.Seed, o.Kind, b.Pool, b.Problem, o.Seed)
		}
		for _, p := range o.Result.Pools {
			if _, ok := shareRatio(p.Outcome); ok {
				hungry++
			}
			if _, ok := guaranteeRatio(p.Outcome); ok {
				guarantees++
			}
			if waits(p.Outcome) {
				waited++
			}
		}
	}
	// The scenarios ask what they are made for.
	if hungry < 100 || guarantees < 20 || waited < 40 {
		t.Errorf("%d always hungry pools, %d guarantees and %d first waits were judged, want at least 100, 20 and 40", hungry, guarantees, waited)
	}
	if len(outcomes) < Many {
		t.Errorf("%d clusters are not many", len(outcomes))
	}
	for _, b := range JudgeAll(outcomes) {
		t.Error(b.Problem)
	}
}

// TestThreePools: of three pools of equal weight, the one that comes last gets a third as well.
func TestThreePools(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "three-pools.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := simulate.Read(data, nil, simulate.Changes{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate.Run(context.Background(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Pools {
		if !p.Outcome.Hungry {
			t.Errorf("pool %s is not always hungry", p.Name)
		}
	}
	for _, b := range Judge(f, r.Pools) {
		t.Errorf("pool %s: %s", b.Pool, b.Problem)
	}
}
