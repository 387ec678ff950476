package preemption_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// plainCut is the rule of F.12.1 as it is written: how many allocations, in the order
// of their start, are on the protected side of a bound.
func plainCut(b preemption.Bounds, bound resource.Vector, members []*preemption.Member) int {
	s := preemption.Shares{Fair: b.Fair, Demand: b.Demand}
	below := func(usage resource.Amounts) bool {
		return b.Protected.StrictlyDominates(usage) || s.NonBlockedDominates(bound, resource.Share(usage, b.Total))
	}
	var usage resource.Amounts
	for i, m := range members {
		if !below(usage) {
			return i
		}
		usage = usage.Add(m.Resources)
		near := resource.Share(usage, b.Total).Near(bound, resource.Epsilon)
		if b.OnBoundPreemptible && !below(usage) && !near {
			return i
		}
	}
	return len(members)
}

// plainLevels are the levels of all members, found anew.
func plainLevels(b preemption.Bounds, members []*preemption.Member) []preemption.Level {
	normal := b.Fair.Scale(b.Threshold)
	if b.Fair.Near(b.Demand, 1e-9) && b.Demand.MaxComponent() > 1e-9 {
		normal = resource.Uniform(1e300)
	}
	first, second := plainCut(b, b.Fair.Scale(b.AggressiveThreshold), members), plainCut(b, normal, members)
	second = max(first, second)
	levels := make([]preemption.Level, len(members))
	for i := range levels {
		switch {
		case i >= second:
			levels[i] = preemption.Preemptible
		case i >= first && b.Aggressive:
			levels[i] = preemption.AggressivelyPreemptible
		}
	}
	return levels
}

func drawShare(t *rapid.T, name string, most int) float64 {
	return float64(rapid.IntRange(0, most).Draw(t, name)) / 10
}

func drawBounds(t *rapid.T) preemption.Bounds {
	b := preemption.Bounds{
		Total: resource.Amounts{UserSlots: 10, CPU: 1000, Memory: 20}, Aggressive: rapid.Bool().Draw(t, "aggressive"),
		AggressiveThreshold: drawShare(t, "aggressive threshold", 10), OnBoundPreemptible: rapid.Bool().Draw(t, "on bound"),
	}
	b.Threshold = b.AggressiveThreshold + drawShare(t, "more", 5) + 0.1
	for _, k := range []resource.Kind{resource.UserSlots, resource.CPU, resource.Memory} {
		b.Demand[k] = drawShare(t, "demand", 15)
		b.Fair[k] = min(drawShare(t, "fair", 10), b.Demand[k])
	}
	if rapid.Bool().Draw(t, "protected") {
		b.Protected = resource.Infinite.With(resource.UserSlots, rapid.Int64Range(0, 6).Draw(t, "slots"))
	}
	return b
}

// TestGroupsAreThePlainCut lets allocations come and go, and bounds change: the groups
// are those that the rule says, consecutive in the order of start.
func TestGroupsAreThePlainCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g preemption.Groups
		b := drawBounds(t)
		g.SetBounds(b)
		var members, away []*preemption.Member
		add := func(m *preemption.Member) {
			g.Add(m)
			members = append(members, m)
			slices.SortFunc(members, func(a, b *preemption.Member) int {
				return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Job, b.Job))
			})
		}
		jobs := 0
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				jobs++
				add(&preemption.Member{
					Job: scheduling.JobID(fmt.Sprint(jobs)), Started: begin.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "at")) * time.Second),
					Resources: resource.Amounts{UserSlots: rapid.Int64Range(0, 2).Draw(t, "slots"), Memory: rapid.Int64Range(0, 3).Draw(t, "memory"),
						CPU: resource.Hundredths(50 * rapid.Int64Range(0, 4).Draw(t, "cpu"))},
				})
			},
			"leave": func(t *rapid.T) {
				if len(members) == 0 {
					t.Skip("nobody is there")
				}
				m := rapid.SampledFrom(members).Draw(t, "who")
				g.Remove(m)
				g.Remove(m)
				members = slices.DeleteFunc(members, func(other *preemption.Member) bool { return other == m })
				away = append(away, m)
			},
			"stay": func(t *rapid.T) {
				if len(away) == 0 {
					t.Skip("nobody leaves")
				}
				m := away[len(away)-1]
				away = away[:len(away)-1]
				add(m)
			},
			"bounds": func(t *rapid.T) {
				b = drawBounds(t)
				g.SetBounds(b)
			},
			"": func(t *rapid.T) { checkGroups(t, &g, b, members, away) },
		})
	})
}

func checkGroups(t *rapid.T, g *preemption.Groups, b preemption.Bounds, members, away []*preemption.Member) {
	var usage, always, normally resource.Amounts
	want := plainLevels(b, members)
	before := g.First()
	for i, m := range members {
		if before != m {
			t.Fatalf("%v is number %d, want %v", before, i, m)
		}
		before = m.Next()
		if m.Level() != want[i] || !m.Grouped() {
			t.Fatalf("number %d of %d is %s, want %s: bounds %+v", i, len(members), m.Level(), want[i], b)
		}
		usage = usage.Add(m.Resources)
		if want[i] == preemption.NonPreemptible {
			always = always.Add(m.Resources)
		}
		if want[i] != preemption.Preemptible {
			normally = normally.Add(m.Resources)
		}
	}
	if before != nil || g.Len() != len(members) || g.Usage() != usage {
		t.Fatalf("%d members use %v, and after the last is %v; want %d, %v", g.Len(), g.Usage(), before, len(members), usage)
	}
	if a, n := g.Protected(); a != always || n != normally {
		t.Fatalf("protected %v and %v, want %v and %v", a, n, always, normally)
	}
	for _, m := range away {
		if m.Grouped() || m.Level() != preemption.NonPreemptible || m.Gracefully() || m.Next() != nil || m.Prev() != nil {
			t.Fatalf("%v is away", m)
		}
	}
	for i, m := range members {
		// Whoever goes gracefully leaves the operation enough, and never does one more.
		if less := usage.Sub(m.Resources); m.Gracefully() != (want[i] == preemption.Preemptible && !g.Bounds().Below(less)) {
			t.Fatalf("number %d gracefully: %t, without it %v is used", i, m.Gracefully(), less)
		}
	}
}

// TestGracefulSettles: an operation that starts a job when Below lets it, and loses one
// when Gracefully says so, comes to rest after a change of its fair share, and a
// change of less than a job moves nothing back and forth.
func TestGracefulSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g preemption.Groups
		job := resource.Amounts{UserSlots: 1, CPU: resource.Hundredths(100 * rapid.Int64Range(1, 4).Draw(t, "cpu"))}
		onBound := rapid.Bool().Draw(t, "on bound")
		var leaving resource.Amounts
		for change := range rapid.IntRange(1, 4).Draw(t, "changes") {
			fair := rapid.Float64Range(0, 1).Draw(t, "fair")
			g.SetBounds(preemption.Bounds{
				Fair: resource.Vector{fair, fair}, Demand: resource.Vector{2, 2}, Total: resource.Amounts{UserSlots: 10, CPU: 1000},
				Threshold: 1, OnBoundPreemptible: onBound,
			})
			started, left := 0, 0
			for range 200 {
				if last := g.Last(); last != nil && last.Gracefully() {
					left++
					g.Remove(last)
					leaving = leaving.Add(last.Resources)
					continue
				}
				if g.Bounds().Below(g.Usage().Add(leaving)) {
					started++
					g.Add(&preemption.Member{Job: scheduling.JobID(fmt.Sprint(change, started)), Started: begin.Add(time.Duration(change) * time.Hour), Resources: job})
					continue
				}
				if leaving.IsZero() {
					break
				}
				leaving = leaving.Sub(job)
			}
			if started > 0 && left > 0 {
				t.Fatalf("change %d to %v: %d started and %d had to go", change, fair, started, left)
			}
			if !leaving.IsZero() || g.Bounds().Below(g.Usage()) {
				t.Fatalf("change %d to %v: no rest at %v with %v leaving", change, fair, g.Usage(), leaving)
			}
			share := resource.Share(g.Usage(), g.Bounds().Total)
			if over := resource.Share(g.Usage().Sub(job), g.Bounds().Total); g.Len() > 0 && min(over[0], over[1]) >= fair && max(over[0], over[1]) >= fair && g.Last().Gracefully() {
				t.Fatalf("change %d to %v: a job too many at %v", change, fair, share)
			}
		}
	})
}

// TestGroupsAllocateNothing: what happens all the time needs no memory.
func TestGroupsAllocateNothing(t *testing.T) {
	var g preemption.Groups
	members := make([]preemption.Member, 100)
	for i := range members {
		members[i] = preemption.Member{Job: scheduling.JobID(fmt.Sprint(i)), Started: begin.Add(time.Duration(i) * time.Second), Resources: resource.Amounts{UserSlots: 1}}
		g.Add(&members[i])
	}
	b := preemption.Bounds{Demand: resource.Ones, Total: resource.Amounts{UserSlots: 100}, AggressiveThreshold: 0.5, Threshold: 1, Aggressive: true}
	candidates := make([]*preemption.Member, 0, len(members))
	step := 0
	if n := testing.AllocsPerRun(100, func() {
		step++
		b.Fair[resource.UserSlots] = float64(step%10) / 10
		g.SetBounds(b)
		m := g.Last()
		g.Remove(m)
		g.Add(m)
		candidates = candidates[:0]
		for m := g.First(); m != nil; m = m.Next() {
			candidates = append(candidates, m)
		}
		preemption.Victims(resource.Amounts{UserSlots: 7}, resource.Amounts{UserSlots: 2}, candidates)
	}); n != 0 {
		t.Errorf("%v allocations of memory a step", n)
	}
}

// TestBelowIsTheRule compares Below with the rule of F.10, at the bound above all.
func TestBelowIsTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := preemption.Bounds{Threshold: rapid.Float64Range(0.01, 2).Draw(t, "threshold")}
		var usage resource.Amounts
		for i := range resource.Count {
			k := resource.Kind(i)
			b.Total = b.Total.With(k, rapid.SampledFrom([]int64{0, 1, 3, 7, 1000, 1 << 40, 1<<52 - 1}).Draw(t, "total"))
			b.Demand[i] = drawShare(t, "demand", 15)
			b.Fair[i] = b.Demand[i] * rapid.SampledFrom([]float64{0, .1, .3, 1. / 3, .5, 1}).Draw(t, "fair")
			at := int64(b.Fair[i] * b.Threshold * float64(b.Total.Of(k)))
			usage = usage.With(k, max(at+rapid.Int64Range(-1, 2).Draw(t, "around"), 0))
		}
		bound := b.Fair.Scale(b.Threshold)
		if b.Fair.Near(b.Demand, 1e-9) && b.Demand.MaxComponent() > 1e-9 {
			bound = resource.Uniform(1e300)
		}
		want := preemption.Shares{Fair: b.Fair, Demand: b.Demand}.NonBlockedDominates(bound, resource.Share(usage, b.Total))
		if got := b.Below(usage); got != want {
			t.Fatalf("%v of %+v: %t, want %t", usage, b, got, want)
		}
	})
	var g preemption.Groups
	g.Add(&preemption.Member{Resources: resource.Amounts{UserSlots: 1}})
	if l := g.First().Level(); l != preemption.Preemptible {
		t.Errorf("without bounds a job is %s", l)
	}
}

func TestLevels(t *testing.T) {
	for level, want := range map[preemption.Level]string{
		preemption.NonPreemptible: "non_preemptible", preemption.AggressivelyPreemptible: "aggressively_preemptible",
		preemption.Preemptible: "preemptible", 9: "preemption.Level(9)",
	} {
		if level.String() != want {
			t.Errorf("%d is %q, want %q", level, level, want)
		}
	}
}

// TestBounds cuts ten jobs of one slot and one cpu, and says how many are in the first
// two groups.
func TestBounds(t *testing.T) {
	half := preemption.Bounds{Fair: cpuAndSlots(.5), Demand: cpuAndSlots(1), Threshold: 1, AggressiveThreshold: .4, Aggressive: true}
	with := func(change func(*preemption.Bounds)) preemption.Bounds {
		b := half
		change(&b)
		return b
	}
	protected := resource.Infinite.With(resource.UserSlots, 3)
	cases := map[string]struct {
		bounds      preemption.Bounds
		want        int
		wantNormal  int
		wantAtBound int
	}{
		"half of the cluster":            {half, 2, 5, 5},
		"who crosses stays":              {with(func(b *preemption.Bounds) { b.Fair = cpuAndSlots(.45) }), 2, 5, 4},
		"all that is demanded":           {with(func(b *preemption.Bounds) { b.Fair, b.Demand = cpuAndSlots(.5), cpuAndSlots(.5) }), 2, 10, 10},
		"nothing is demanded":            {with(func(b *preemption.Bounds) { b.Fair, b.Demand = resource.Vector{}, resource.Vector{} }), 0, 0, 0},
		"a count of jobs":                {with(func(b *preemption.Bounds) { b.Protected = protected }), 3, 5, 5},
		"a count beyond the share":       {with(func(b *preemption.Bounds) { b.Protected, b.Fair = protected, cpuAndSlots(.1) }), 3, 3, 2},
		"one resource over":              {with(func(b *preemption.Bounds) { b.Fair = resource.Vector{.5, .3} }), 2, 3, 2},
		"one resource over, and blocked": {with(func(b *preemption.Bounds) { b.Fair, b.Demand = resource.Vector{.5, .3}, resource.Vector{1, .3} }), 2, 5, 4},
		"never aggressively":             {with(func(b *preemption.Bounds) { b.Aggressive = false }), 5, 5, 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, onBound := range []bool{false, true} {
				var g preemption.Groups
				for i := range 10 {
					g.Add(&preemption.Member{Job: scheduling.JobID(fmt.Sprint(i)), Started: begin, Resources: resource.Amounts{UserSlots: 1, CPU: 100}})
				}
				b := tc.bounds
				b.Total, b.OnBoundPreemptible = resource.Amounts{UserSlots: 10, CPU: 1000}, onBound
				g.SetBounds(b)
				always, normally := g.Protected()
				if want := int64(tc.wantNormal); !onBound && (always.UserSlots != int64(tc.want) || normally.UserSlots != want) {
					t.Errorf("%d and %d are protected, want %d and %d", always.UserSlots, normally.UserSlots, tc.want, want)
				}
				if onBound && normally.UserSlots != int64(tc.wantAtBound) {
					t.Errorf("where the crossing one is not, %d are protected, want %d", normally.UserSlots, tc.wantAtBound)
				}
			}
		})
	}
}
