package preemption_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/preemption"
)

// TestClock plays what an element is told once in 10 s and wants what it says then.
func TestClock(t *testing.T) {
	type moment struct {
		below, belowMin bool
		want            preemption.Starvation
		// lacks: it is below its fair share by less than is tolerated.
		lacks bool
	}
	const non, starving, aggressive = preemption.NonStarving, preemption.Starving, preemption.AggressivelyStarving
	all := preemption.Timeouts{
		CanStarve: true, FairShare: 20 * time.Second, MinShare: 5 * time.Second, CanStarveAggressively: true, Aggressive: 40 * time.Second,
	}
	with := func(change func(*preemption.Timeouts)) preemption.Timeouts {
		t := all
		change(&t)
		return t
	}
	below := func(want preemption.Starvation) moment { return moment{below: true, want: want} }
	least := func(want preemption.Starvation) moment { return moment{below: true, belowMin: true, want: want} }
	well := moment{want: non}
	// Within the tolerance of the fair share, but below the min share.
	short := func(want preemption.Starvation) moment { return moment{belowMin: true, want: want} }
	lacks := func(want preemption.Starvation) moment { return moment{lacks: true, want: want} }
	cases := map[string]struct {
		timeouts preemption.Timeouts
		moments  []moment
	}{
		"all is well":                   {all, []moment{well, well, well, well}},
		"longer than the timeout":       {all, []moment{below(non), below(non), below(non), below(starving), below(starving), below(aggressive)}},
		"it ends when all is well":      {all, []moment{below(non), below(non), below(non), below(starving), well, below(non), below(non)}},
		"below the min share":           {all, []moment{least(non), least(starving)}},
		"the min share is a later need": {all, []moment{below(non), least(non), least(starving)}},
		"its clock is put back":         {all, []moment{least(non), below(non), least(non), below(starving)}},
		"who starves goes on to":        {all, []moment{least(non), least(starving), below(starving)}},
		"a long min share timeout":      {with(func(t *preemption.Timeouts) { t.MinShare = time.Hour }), []moment{least(non), least(non), least(non), least(starving)}},
		"no min share timeout at all":   {with(func(t *preemption.Timeouts) { t.MinShare = 0 }), []moment{short(non), short(starving)}},
		"never aggressively": {with(func(t *preemption.Timeouts) { t.CanStarveAggressively = false }),
			[]moment{below(non), below(non), below(non), below(starving), below(starving), below(starving)}},
		"no timeout at all":                                   {with(func(t *preemption.Timeouts) { t.FairShare = 0 }), []moment{below(non), below(starving)}},
		"who may not starve":                                  {with(func(t *preemption.Timeouts) { t.CanStarve = false }), []moment{least(non), least(non), below(non), below(non), below(non), below(non)}},
		"normal below min share":                              {all, []moment{short(non), short(starving), short(starving), well, short(non)}},
		"normal, and who may not starve":                      {with(func(t *preemption.Timeouts) { t.CanStarve = false }), []moment{short(non), short(non), short(non)}},
		"the fair share's clock is put back when that is had": {all, []moment{least(non), short(starving), below(non), below(non), below(non), below(starving)}},
		"normal is not aggressive":                            {all, []moment{least(non), least(starving), least(starving), least(starving), least(starving), least(aggressive), short(starving), well}},
		"the min share's clock goes on from before":           {all, []moment{least(non), below(non), short(non), short(starving)}},
		"less than is tolerated":                              {all, []moment{lacks(non), lacks(non), lacks(non), lacks(starving), lacks(starving), lacks(aggressive), well}},
		"until nothing is missing":                            {all, []moment{below(non), below(non), below(non), below(starving), lacks(starving), well, lacks(non)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var c preemption.Clock
			now := time.Unix(1000, 0)
			for i, m := range tc.moments {
				status := preemption.Normal
				if m.below {
					status = preemption.BelowFairShare
				}
				below := m.below || m.lacks
				c.Judge(now, status, below, m.belowMin, tc.timeouts)
				if c.Starvation != m.want || c.Status != status || c.Since.IsZero() == below {
					t.Fatalf("moment %d: %+v, want %s", i, c, m.want)
				}
				now = now.Add(10 * time.Second)
			}
		})
	}
	for s, want := range map[preemption.Starvation]string{non: "non_starving", starving: "starving", aggressive: "aggressively_starving"} {
		if s.String() != want {
			t.Errorf("%d is %s, want %s", s, s, want)
		}
	}
}

// TestStarves: what is said of when an element starves is what Judge finds then.
func TestStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		status := preemption.Status(rapid.IntRange(0, 1).Draw(t, "status"))
		seconds := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 20).Draw(t, name)) * time.Second
		}
		timeouts := preemption.Timeouts{
			CanStarve: rapid.Bool().Draw(t, "can starve"), FairShare: seconds("fair share"), MinShare: seconds("min share"),
			CanStarveAggressively: rapid.Bool().Draw(t, "can starve aggressively"), Aggressive: seconds("aggressive"),
		}
		var c preemption.Clock
		now, belowMin := begin, rapid.Bool().Draw(t, "below min")
		c.Judge(now, status, status == preemption.BelowFairShare, belowMin, timeouts)
		starving, aggressively := c.Starves(timeouts)
		for range 30 {
			now = now.Add(time.Second)
			c.Judge(now, status, status == preemption.BelowFairShare, belowMin, timeouts)
			if want := !starving.IsZero() && now.After(starving); want != (c.Starvation != preemption.NonStarving) {
				t.Fatalf("at %v it is %v, and it was to starve at %v", now, c.Starvation, starving)
			}
			if want := !aggressively.IsZero() && now.After(aggressively); want != (c.Starvation == preemption.AggressivelyStarving) {
				t.Fatalf("at %v it is %v, and it was to starve aggressively at %v", now, c.Starvation, aggressively)
			}
		}
		c.Judge(now, preemption.Normal, false, false, timeouts)
		if starving, aggressively = c.Starves(timeouts); !starving.IsZero() || !aggressively.IsZero() {
			t.Fatalf("one that is well is to starve at %v, aggressively at %v", starving, aggressively)
		}
	})
}

// TestLengthened: only what an element waits to its fair share, and no less than before.
func TestLengthened(t *testing.T) {
	from := preemption.Timeouts{CanStarve: true, FairShare: 20 * time.Second, MinShare: 5 * time.Second, CanStarveAggressively: true, Aggressive: 40 * time.Second}
	for times, want := range map[float64]time.Duration{0: 20 * time.Second, .5: 20 * time.Second, 1: 20 * time.Second, 1.5: 30 * time.Second, 4: 80 * time.Second} {
		got := from.Lengthened(times)
		if got.FairShare != want || got.Aggressive != 2*want || got.MinShare != from.MinShare || !got.CanStarve || !got.CanStarveAggressively {
			t.Errorf("%v times: %+v, want %v", times, got, want)
		}
	}
	if got := from.Lengthened(1e300); got.FairShare < 100*365*24*time.Hour || got.Aggressive < got.FairShare {
		t.Errorf("got %+v, want more than anyone waits", got)
	}
}
