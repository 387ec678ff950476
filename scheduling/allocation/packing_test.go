package allocation_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/allocation"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

func cpuAndMemory(cores float64, memory int64) resource.Amounts {
	return resource.Amounts{UserSlots: 1, CPU: resource.Cores(cores), Memory: memory}
}

func TestAngle(t *testing.T) {
	whole := cpuAndMemory(100, 1000)
	diagonal := 1 - math.Sqrt(.5)
	cases := map[string]struct {
		needs, free             resource.Amounts
		wantAngle, wantByLength float64
	}{
		"in proportion":         {cpuAndMemory(1, 10), cpuAndMemory(50, 500), 0, 0},
		"only cpu is free":      {cpuAndMemory(1, 10), cpuAndMemory(50, 0), diagonal, diagonal * 50 / math.Sqrt2},
		"nothing in common":     {cpuAndMemory(1, 0), cpuAndMemory(0, 500), 1, 50},
		"it needs neither":      {cpuAndMemory(0, 0), cpuAndMemory(50, 0), 0, 0},
		"nothing is free":       {cpuAndMemory(1, 10), cpuAndMemory(0, 0), 1, 0},
		"slots do not come in":  {cpuAndMemory(1, 10), resource.Amounts{CPU: 5000, Memory: 500}, 0, 0},
		"half as long, the way": {cpuAndMemory(2, 20), cpuAndMemory(50, 0), diagonal, diagonal * 25 / math.Sqrt2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := allocation.Angle(tc.needs, tc.free, whole); math.Abs(got-tc.wantAngle) > 1e-12 {
				t.Errorf("angle %v, want %v", got, tc.wantAngle)
			}
			if got := allocation.AngleLength(tc.needs, tc.free, whole); math.Abs(got-tc.wantByLength) > 1e-9 {
				t.Errorf("angle and length %v, want %v", got, tc.wantByLength)
			}
		})
	}
}

// TestPacking offers a job of 1 cpu and 10 of memory one node after another, a minute
// apart, and says whether it takes the last.
func TestPacking(t *testing.T) {
	good, bad, tight := cpuAndMemory(10, 100), cpuAndMemory(50, 100), cpuAndMemory(0.5, 5)
	settings := func(change func(*pooltree.EffectivePacking)) pooltree.EffectivePacking {
		s := pooltree.EffectivePacking{Enable: true, Metric: pooltree.PackByAngleLength, MaxBetter: 2, AbsoluteTolerance: .05, RelativeTolerance: 1.5,
			MaxWindowSize: 3, MaxHeartbeatAge: time.Hour}
		change(&s)
		return s
	}
	none := func(*pooltree.EffectivePacking) {}
	cases := map[string]struct {
		change func(*pooltree.EffectivePacking)
		seen   []resource.Amounts
		offer  resource.Amounts
		want   bool
	}{
		"the first one":               {none, nil, bad, true},
		"one was better":              {none, []resource.Amounts{good}, bad, true},
		"two were better":             {none, []resource.Amounts{good, good}, bad, false},
		"as good as they were":        {none, []resource.Amounts{good, good}, good, true},
		"better than they were":       {none, []resource.Amounts{bad, bad}, good, true},
		"they could not hold it":      {none, []resource.Amounts{tight, tight}, bad, true},
		"it is past the window":       {none, []resource.Amounts{good, good, bad, bad}, bad, true},
		"it is too long ago":          {func(s *pooltree.EffectivePacking) { s.MaxHeartbeatAge = time.Minute }, []resource.Amounts{good, good}, bad, true},
		"a wide tolerance":            {func(s *pooltree.EffectivePacking) { s.AbsoluteTolerance = 100 }, []resource.Amounts{good, good}, bad, true},
		"a wide relative tolerance":   {func(s *pooltree.EffectivePacking) { s.RelativeTolerance = 1e9 }, []resource.Amounts{bad, bad}, cpuAndMemory(60, 100), true},
		"it waits for some":           {func(s *pooltree.EffectivePacking) { s.MinWindowSize = 2 }, []resource.Amounts{bad}, good, false},
		"it has waited":               {func(s *pooltree.EffectivePacking) { s.MinWindowSize = 2 }, []resource.Amounts{bad, bad}, good, true},
		"one is enough":               {func(s *pooltree.EffectivePacking) { s.MaxBetter = 1 }, []resource.Amounts{good}, bad, false},
		"a fuller node by the length": {func(s *pooltree.EffectivePacking) { s.MaxBetter = 1 }, []resource.Amounts{cpuAndMemory(5, 10)}, cpuAndMemory(50, 100), false},
		"but not by the angle alone": {func(s *pooltree.EffectivePacking) { s.MaxBetter, s.Metric = 1, pooltree.PackByAngle },
			[]resource.Amounts{cpuAndMemory(5, 10)}, cpuAndMemory(50, 100), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var p allocation.Packing
			s := settings(tc.change)
			now := time.Unix(0, 0)
			for _, free := range tc.seen {
				p.Saw(now, free, s)
				now = now.Add(time.Minute)
			}
			now = now.Add(time.Second)
			if got := p.Accepts(now, cpuAndMemory(1, 10), tc.offer, cpuAndMemory(100, 1000), s); got != tc.want {
				t.Errorf("takes it: %t", got)
			}
		})
	}
}

// TestAngleProperties: the angle is from 0 to 1, and does not depend on lengths; that
// with length grows with what is free.
func TestAngleProperties(t *testing.T) {
	whole := cpuAndMemory(1000, 1<<40)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) resource.Amounts {
			return cpuAndMemory(float64(rapid.IntRange(0, 100).Draw(t, name)), rapid.Int64Range(0, 1<<30).Draw(t, name))
		}
		needs, free := draw("needs"), draw("free")
		n := rapid.Int64Range(1, 5).Draw(t, "times")
		angle := allocation.Angle(needs, free, whole)
		if !(angle >= 0 && angle <= 1) {
			t.Fatalf("angle %v", angle)
		}
		for what, other := range map[string]float64{
			"with more free": allocation.Angle(needs, free.Times(n), whole), "of a larger job": allocation.Angle(needs.Times(n), free, whole),
		} {
			if math.Abs(other-angle) > 1e-9 {
				t.Fatalf("angle %v, %s %v", angle, what, other)
			}
		}
		if less, more := allocation.AngleLength(needs, free, whole), allocation.AngleLength(needs, free.Times(n), whole); more < less-1e-9*(1+less) {
			t.Fatalf("%v of one, %v of %d", less, more, n)
		}
	})
}
