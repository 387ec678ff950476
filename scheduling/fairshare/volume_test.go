package fairshare_test

import (
	"math"
	"testing"
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

func cores(n float64) resource.Amounts { return resource.Amounts{CPU: resource.Cores(n)} }

// volume returns seconds of the whole cluster.
func volume(total resource.Amounts, seconds float64) resource.Volume {
	return resource.VolumeOf(total, time.Duration(seconds*float64(time.Second)))
}

// TestDays is two pools that together need 3,000 cpus by strong guarantees and are
// served by 2,000: one wants all of it for half a day, the other one always what it
// can get (G6).
func TestDays(t *testing.T) {
	total := cores(2000)
	burst := pool("burst", integral(fairshare.Integral{Type: fairshare.Burst, Flow: cores(1000), Burst: cores(2000)}), holding(operation("b", 0, 0)))
	relaxed := pool("relaxed", integral(fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(1000)}), holding(operation("r", 2000, 0)))
	tree := tree(burst, relaxed)
	const step = 30 * time.Second
	var got, want [2]float64 // core-hours
	for now, end := begin, begin.Add(4*24*time.Hour); now.Before(end); now = now.Add(step) {
		passed := now.Sub(begin)
		wants := 0.0
		if passed%(24*time.Hour) >= 12*time.Hour {
			wants = 2000
		}
		burst.Children[0].Demand = cores(wants)
		update(t, tree, total, now)
		if passed < 24*time.Hour {
			continue // Volumes are still what they began with.
		}
		if passed%(24*time.Hour) == 24*time.Hour-step {
			if left := burst.Pool.Volume.MinRatio(total); left > 300 {
				t.Errorf("%v after begin %.0f share-seconds are left of 21,600", passed, left)
			}
		}
		got[0] += burst.FairShare[resource.CPU] * 2000 * step.Hours()
		got[1] += relaxed.FairShare[resource.CPU] * 2000 * step.Hours()
		want[0] += wants * step.Hours()
		want[1] += 1000 * step.Hours()
	}
	for i, name := range []string{"burst", "relaxed"} {
		if math.Abs(got[i]-want[i]) > want[i]/100 {
			t.Errorf("%s: got %.0f core-hours, was promised %.0f", name, got[i], want[i])
		}
	}
}

// TestVolumeLasts: 60 share-seconds of 1,000 cpus are 10 minutes of 100, and 20 of
// 50, without inflow (G6).
func TestVolumeLasts(t *testing.T) {
	total := cores(1000)
	for cpus, want := range map[float64]time.Duration{100: 10 * time.Minute, 50: 20 * time.Minute} {
		p := pool("p", weight(1e-6), integral(fairshare.Integral{Type: fairshare.Burst, Burst: cores(cpus)}), holding(operation("a", 1000, 0)))
		p.Pool.Volume = volume(total, 60)
		tree := tree(p, operation("hungry", 1000, 0))
		tree.Options.SmoothPeriod = time.Second
		now := begin
		update(t, tree, total, now)
		if got, ok := p.Pool.BurstDuration(total); !ok || (got-want).Abs() > time.Second {
			t.Errorf("%v cpus are said to last %v, %v, want %v", cpus, got, ok, want)
		}
		for now.Sub(begin) < time.Hour && p.Pool.LastShareRatio > cpus/1000/2 {
			now = now.Add(200 * time.Millisecond)
			update(t, tree, total, now)
		}
		if got := now.Sub(begin); (got - want).Abs() > want/100 {
			t.Errorf("%v cpus last %v, want %v", cpus, got, want)
		}
	}
}

func TestBurstDuration(t *testing.T) {
	cases := map[string]struct {
		total  resource.Amounts
		give   fairshare.Integral
		want   time.Duration
		wantOK bool
	}{
		"half of the burst flows in": {cores(1000), fairshare.Integral{Type: fairshare.Burst, Flow: cores(50), Burst: cores(100)}, 20 * time.Minute, true},
		"as much flows in":           {cores(1000), fairshare.Integral{Type: fairshare.Burst, Flow: cores(100), Burst: cores(100)}, 0, false},
		"for longer than time goes":  {cores(1e6), fairshare.Integral{Type: fairshare.Burst, Burst: cores(0.01)}, 0, false},
		"a relaxed pool":             {cores(1000), fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(50)}, 0, false},
		"no integral guarantee":      {cores(1000), fairshare.Integral{Flow: cores(50), Burst: cores(100)}, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := pool("p", integral(tc.give))
			p.Pool.Volume = volume(tc.total, 60)
			update(t, tree(p), tc.total, begin)
			if got, ok := p.Pool.BurstDuration(tc.total); ok != tc.wantOK || (got-tc.want).Abs() > time.Second {
				t.Errorf("got %v, %v, want %v, %v", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}

// TestRefill: the flow comes in, what was granted goes out, and not what was used.
func TestRefill(t *testing.T) {
	total := cores(100)
	p := pool("p", integral(fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(20), AcceptsFreeVolume: true}), holding(operation("a", 100, 0)))
	p.Pool.Volume = volume(total, 30)
	tree := tree(p, operation("b", 100, 0))
	update(t, tree, total, begin)
	near(t, "nothing flows before the first update", p.Pool.Volume.MinRatio(total), 30)
	// 30 s over a smooth period of 60 s: half of the cluster.
	near(t, "granted", p.Pool.LastShareRatio, 0.5)
	near(t, "integral part", p.Parts().Integral[resource.CPU], 0.5)
	update(t, tree, total, begin.Add(10*time.Second))
	near(t, "10 s later", p.Pool.Volume.MinRatio(total), 30+2-5)
	update(t, tree, total, begin.Add(5*time.Second))
	near(t, "a clock that goes back moves nothing", p.Pool.Volume.MinRatio(total), 27)
	p.Pool.Integral.Type = fairshare.NoIntegral
	update(t, tree, total, begin.Add(20*time.Second))
	near(t, "without a guarantee it stays", p.Pool.Volume.MinRatio(total), 27)
	if p.Pool.LastShareRatio != 0 {
		t.Errorf("a pool without volume owes %v", p.Pool.LastShareRatio)
	}
}

// TestOverflow: what a full pool cannot take goes to siblings that have room, by
// flow, where the pool above distributes it.
func TestOverflow(t *testing.T) {
	total := cores(100)
	flow := func(n float64, accepts bool) func(*fairshare.Element) {
		return integral(fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(n), AcceptsFreeVolume: accepts})
	}
	for name, tc := range map[string]struct {
		distributes *bool
		byTree      bool
		want        [3]float64
	}{
		"distributed":            {new(true), false, [3]float64{3.5, 3.5, 1}},
		"left to the tree: lost": {nil, false, [3]float64{1, 3, 1}},
		"left to the tree":       {nil, true, [3]float64{3.5, 3.5, 1}},
		"not distributed":        {new(false), true, [3]float64{1, 3, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			full, low, almost, closed := pool("full", flow(30, true)), pool("low", flow(10, true)), pool("almost", flow(30, true)), pool("closed", flow(10, false))
			above := pool("above", holding(full, low, almost, closed))
			above.Pool.Integral.DistributesFreeVolume = tc.distributes
			tree := tree(above)
			tree.Options.CapacityPeriod = 100 * time.Second
			tree.Options.DistributesFreeVolume = tc.byTree
			full.Pool.Volume = volume(total, 30)
			almost.Pool.Volume = volume(total, 26.5)
			update(t, tree, total, begin)
			update(t, tree, total, begin.Add(10*time.Second))
			// full overflows by 3; almost takes 0.5 of it, and low the rest.
			near(t, "full", full.Pool.Volume.MinRatio(total), 30)
			near(t, "low", low.Pool.Volume.MinRatio(total), tc.want[0])
			near(t, "almost", almost.Pool.Volume.MinRatio(total)-26.5, tc.want[1])
			near(t, "closed", closed.Pool.Volume.MinRatio(total), tc.want[2])
		})
	}
}

// TestTransfer: a tree that is given volumes, last ratios and the time goes on as
// the other one does.
func TestTransfer(t *testing.T) {
	build := func() *fairshare.Tree {
		return tree(
			pool("b", integral(fairshare.Integral{Type: fairshare.Burst, Flow: cores(10), Burst: cores(40)}), holding(operation("x", 100, 0))),
			pool("r", integral(fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(20)}), holding(operation("y", 100, 0))),
			operation("z", 100, 0))
	}
	total := cores(100)
	first, second := build(), build()
	now := begin
	for range 100 {
		update(t, first, total, now)
		now = now.Add(time.Second)
	}
	second.Updated = first.Updated
	from, to := byID(first), byID(second)
	for id, e := range from {
		if e.Pool != nil && id != "<Root>" {
			to[id].Pool.Volume, to[id].Pool.Rest, to[id].Pool.LastShareRatio = e.Pool.Volume, e.Pool.Rest, e.Pool.LastShareRatio
		}
	}
	now = now.Add(7 * time.Second) // Without a leader.
	for range 10 {
		update(t, first, total, now)
		update(t, second, total, now)
		now = now.Add(time.Second)
		for id, e := range from {
			if e.Parts() != to[id].Parts() {
				t.Fatalf("%s: %v, and after a transfer %v", id, e.Parts(), to[id].Parts())
			}
		}
	}
}

// TestCapacityIsNotRounded to whole slots where a cluster has few.
func TestCapacityIsNotRounded(t *testing.T) {
	total := resource.Amounts{UserSlots: 10, CPU: resource.Cores(100)}
	p := pool("p", integral(fairshare.Integral{Type: fairshare.Relaxed, Flow: cores(24)}))
	update(t, tree(p), total, begin)
	near(t, "capacity", p.Pool.Capacity.MinRatio(total), 0.24*86400)
}
