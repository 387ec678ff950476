package preemption_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/preemption"
	"weir/scheduling/resource"
)

// holding is what an engine has: it embeds a member.
type holding struct {
	preemption.Member
	node string
}

// candidates puts jobs that started at these seconds, of this many slots, into groups
// that protect the first so many slots always and the next so many but aggressively.
func candidates(always, normally int64, jobs map[string][2]int64) []*holding {
	g := &preemption.Groups{}
	const total = 1 << 20
	fair := float64(normally) / total
	b := preemption.Bounds{Fair: resource.Vector{fair}, Demand: resource.Vector{2}, Total: resource.Amounts{UserSlots: total}, Threshold: 1, Aggressive: true}
	if normally > 0 {
		b.AggressiveThreshold = float64(always) / float64(normally)
	}
	g.SetBounds(b)
	var all []*holding
	for id, job := range jobs {
		h := &holding{node: "n", Member: preemption.Member{
			Job: scheduling.JobID(id), Started: begin.Add(time.Duration(job[0]) * time.Second), Resources: resource.Amounts{UserSlots: job[1]},
		}}
		g.Add(&h.Member)
		all = append(all, h)
	}
	return all
}

func ids(of []*holding) []string {
	var out []string
	for _, h := range of {
		out = append(out, string(h.Job))
	}
	return out
}

func TestVictims(t *testing.T) {
	type jobs = map[string][2]int64
	cases := map[string]struct {
		always, normally int64
		jobs             jobs
		needs, free      int64
		want             []string
		wantNone         bool
	}{
		"nothing is needed":               {0, 0, jobs{"a": {0, 1}}, 2, 2, nil, false},
		"the latest started":              {0, 0, jobs{"a": {0, 1}, "c": {2, 1}, "b": {1, 1}}, 2, 1, []string{"c"}, false},
		"as many as it takes":             {0, 0, jobs{"a": {0, 1}, "c": {2, 1}, "b": {1, 1}}, 3, 1, []string{"c", "b"}, false},
		"of equal times the greater id":   {0, 0, jobs{"a": {1, 1}, "b": {1, 1}}, 1, 0, []string{"b"}, false},
		"the most preemptible first":      {1, 2, jobs{"a": {0, 1}, "b": {1, 1}, "c": {2, 1}}, 2, 0, []string{"c", "b"}, false},
		"one that is not needed stays":    {0, 0, jobs{"a": {0, 4}, "b": {1, 1}, "c": {2, 1}}, 4, 0, []string{"a"}, false},
		"of those that stay, the earlier": {0, 0, jobs{"a": {0, 3}, "b": {1, 2}, "c": {2, 2}}, 5, 0, []string{"c", "a"}, false},
		"all are too few":                 {0, 0, jobs{"a": {0, 1}, "b": {1, 1}}, 4, 1, nil, true},
		"nobody is there":                 {0, 0, nil, 1, 0, nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all := candidates(tc.always, tc.normally, tc.jobs)
			victims, ok := preemption.Victims(resource.Amounts{UserSlots: tc.needs}, resource.Amounts{UserSlots: tc.free}, all)
			if got := ids(victims); !slices.Equal(got, tc.want) || ok == tc.wantNone {
				t.Errorf("victims %v, %t; want %v", got, ok, tc.want)
			}
		})
	}
}

// TestVictimsProperties: they make room, none of them could stay, who stays comes
// after them in the order or is not needed, and nobody is lost.
func TestVictimsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most int64) resource.Amounts {
			return resource.Amounts{UserSlots: rapid.Int64Range(0, most).Draw(t, name), Memory: rapid.Int64Range(0, most).Draw(t, name)}
		}
		var g preemption.Groups
		g.SetBounds(drawBounds(t))
		var all []*holding
		for i := range rapid.IntRange(0, 9).Draw(t, "candidates") {
			h := &holding{Member: preemption.Member{Job: scheduling.JobID(fmt.Sprint(i)), Started: begin.Add(time.Duration(i%4) * time.Second), Resources: draw("holds", 4)}}
			g.Add(&h.Member)
			all = append(all, h)
		}
		needs, free := draw("needs", 8), draw("free", 4)
		given := rapid.Permutation(all).Draw(t, "order")
		victims, ok := preemption.Victims(needs, free, given)
		sum := free
		for _, h := range all {
			sum = sum.Add(h.Resources)
		}
		if ok != needs.Fits(sum) {
			t.Fatalf("%v into %v: %t", needs, sum, ok)
		}
		if !ok {
			return
		}
		var left resource.Amounts
		for _, h := range victims {
			left = left.Add(h.Resources)
		}
		if !needs.Fits(free.Add(left)) {
			t.Fatalf("%v does not fit into %v and %v", needs, free, left)
		}
		for i, h := range victims {
			if needs.Fits(free.Add(left).Sub(h.Resources)) {
				t.Fatalf("%v could stay", h)
			}
			if i > 0 && victims[i-1].Level() < h.Level() {
				t.Fatalf("%v comes before %v", victims[i-1], h)
			}
		}
		again, _ := preemption.Victims(needs, free, slices.Clone(all))
		if !slices.Equal(ids(again), ids(victims)) {
			t.Fatalf("victims depend on the order: %v and %v", ids(again), ids(victims))
		}
		seen := map[*holding]bool{}
		for _, h := range given {
			seen[h] = true
		}
		if len(seen) != len(all) {
			t.Fatalf("%d candidates of %d are left", len(seen), len(all))
		}
	})
}

func TestBlocks(t *testing.T) {
	free := preemption.Owner{AllowNormal: true}
	with := func(change func(*preemption.Owner)) preemption.Owner {
		o := free
		change(&o)
		return o
	}
	cases := map[string]struct {
		owner                preemption.Owner
		ran                  time.Duration
		wantNormal, wantAggr string
	}{
		"nothing":           {free, 0, "none", "none"},
		"graceful":          {with(func(o *preemption.Owner) { o.Graceful = true }), time.Hour, "preemption_mode", "preemption_mode"},
		"its pool":          {with(func(o *preemption.Owner) { o.AllowNormal = false }), time.Hour, "allow_normal_preemption", "none"},
		"it starves":        {with(func(o *preemption.Owner) { o.Starvation = preemption.Starving }), time.Hour, "starving", "starving"},
		"which is no cause": {with(func(o *preemption.Owner) { o.Starvation, o.FromStarving = preemption.AggressivelyStarving, true }), time.Hour, "none", "none"},
		"it just began":     {with(func(o *preemption.Owner) { o.MinRunTime = time.Minute }), time.Minute - 1, "min_run_time", "min_run_time"},
		"it ran enough":     {with(func(o *preemption.Owner) { o.MinRunTime = time.Minute }), time.Minute, "none", "none"},
		"all at once": {with(func(o *preemption.Owner) {
			*o = preemption.Owner{MinRunTime: time.Minute, Starvation: preemption.Starving}
		}), 0,
			"allow_normal_preemption", "starving"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := begin.Add(tc.ran)
			if got := tc.owner.Blocks(preemption.NormalStage, now, begin); got.String() != tc.wantNormal {
				t.Errorf("normal stage: %s, want %s", got, tc.wantNormal)
			}
			if got := tc.owner.Blocks(preemption.AggressiveStage, now, begin); got.String() != tc.wantAggr {
				t.Errorf("aggressive stage: %s, want %s", got, tc.wantAggr)
			}
		})
	}
	if got := preemption.BlockedByRate.String(); got != "preemption_rate_limit" {
		t.Errorf("rate: %q", got)
	}
}

// TestStages: who is taken in them.
func TestStages(t *testing.T) {
	cases := map[preemption.Stage]struct {
		name   string
		levels []preemption.Level
	}{
		preemption.NormalStage:     {"normal", []preemption.Level{preemption.Preemptible}},
		preemption.AggressiveStage: {"aggressive", []preemption.Level{preemption.AggressivelyPreemptible, preemption.Preemptible}},
	}
	for stage, tc := range cases {
		if stage.String() != tc.name {
			t.Errorf("%s is called %s", tc.name, stage)
		}
		for _, l := range []preemption.Level{preemption.NonPreemptible, preemption.AggressivelyPreemptible, preemption.Preemptible} {
			if got := stage.Takes(l); got != slices.Contains(tc.levels, l) {
				t.Errorf("the %s stage takes %s: %t", stage, l, got)
			}
		}
	}
}

func TestBelowPromised(t *testing.T) {
	s := preemption.Shares{Usage: cpuAndSlots(.2), Fair: cpuAndSlots(.3), Demand: cpuAndSlots(1)}
	for promised, want := range map[float64]bool{.1: false, .2: false, .25: true} {
		if got := s.BelowPromised(cpuAndSlots(promised)); got != want {
			t.Errorf("promised %v: %t, want %t", promised, got, want)
		}
	}
}

func TestShortened(t *testing.T) {
	all := preemption.Timeouts{FairShare: 40 * time.Second, MinShare: 20 * time.Second, Aggressive: 80 * time.Second}
	cases := map[string]struct {
		pending int64
		count   float64
		part    float64
	}{
		"as many":  {1, 1, 1},
		"more":     {100, 10, 1},
		"half":     {5, 10, .5},
		"none":     {0, 1, 0},
		"a little": {1, 4, .25},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := all.Shortened(tc.pending, tc.count)
			for kind, pair := range map[string][2]time.Duration{
				"fair share": {got.FairShare, all.FairShare}, "min share": {got.MinShare, all.MinShare}, "aggressive": {got.Aggressive, all.Aggressive},
			} {
				if want := time.Duration(math.Round(float64(pair[1]) * tc.part)); pair[0] != want {
					t.Errorf("%s %v, want %v", kind, pair[0], want)
				}
			}
		})
	}
}

// TestRate: in no minute are more taken than may be, and as many as may be are.
func TestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r preemption.Rate
		limit := rapid.Int64Range(0, 5).Draw(t, "limit")
		now := begin
		var taken []time.Time
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 25).Draw(t, "seconds")) * time.Second)
			recent := int64(0)
			for _, at := range taken {
				if now.Sub(at) < preemption.RatePeriod {
					recent++
				}
			}
			left := r.Left(now, limit)
			if left != max(limit-recent, 0) {
				t.Fatalf("%d are left of %d after %d", left, limit, recent)
			}
			switch {
			case left > 0:
				r.Take(now)
				taken = append(taken, now)
			case recent > 0 && rapid.Bool().Draw(t, "undo"):
				last := taken[len(taken)-1]
				r.Undo(last)
				taken = taken[:len(taken)-1]
			}
		}
		if left := r.Left(now, -1); left >= 0 {
			t.Fatalf("no limit, and %d are left", left)
		}
	})
}

// TestRateOfThePast: a new leader reads what was taken in any order.
func TestRateOfThePast(t *testing.T) {
	var r preemption.Rate
	for _, second := range []int{30, 10, 50, 20} {
		r.Take(begin.Add(time.Duration(second) * time.Second))
	}
	for second, want := range map[int]int64{60: 1, 70: 2, 85: 3, 120: 5} {
		if got := new(preemption.Rate).Left(begin, want); got != want {
			t.Errorf("an empty one has %d of %d left", got, want)
		}
		copied := r
		if got := copied.Left(begin.Add(time.Duration(second)*time.Second), 5); got != want {
			t.Errorf("after %d s %d are left, want %d", second, got, want)
		}
	}
}
