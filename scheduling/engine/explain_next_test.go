package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir/scheduling"
	"weir/scheduling/explain"
)

// TestExplainWhatIsNext has operations of which some jobs are better off than others, or
// that are about to be.
func TestExplainWhatIsNext(t *testing.T) {
	explainAll(t, map[string]situation{
		"some wait for victims, and the others for the next look": {
			tree:  options{"fair_share_starvation_timeout": "2s"},
			pools: plainPools,
			setup: func(d *drive) {
				d.takes = time.Hour
				d.node("n1", 4)
				d.wants("greedy", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 2, slotsOf(1), nil)
				for len(d.victims) == 0 {
					d.pass(time.Second, time.Second, "n1")
				}
			},
			want: explain.FactVictims,
			check: func(t *testing.T, d *drive, x explain.Explanation) {
				if len(x.Facts) < 2 || x.Facts[1].Code != explain.FactBackoff || x.Tasks[0].Verdict != explain.FactBackoff {
					t.Errorf("what the second job waits for: %+v", x.Facts)
				}
				if n := len(x.Victims); n != 1 {
					t.Errorf("%d are likely to have to leave for the second job", n)
				}
				p, err := d.ExplainPool("b", d.now)
				must(t, err)
				if len(p.Waits) != 1 || p.Waits[0].Verdict != explain.FactVictims || p.Waits[0].Jobs != 1 {
					t.Errorf("the pool: %+v", p.Waits)
				}
			},
		},
		"it starves, and nobody has been looked for yet": {
			tree:  options{"fair_share_starvation_timeout": "2s"},
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("greedy", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
				d.wants("op", "b", 2, slotsOf(1), nil)
				for range 4 {
					d.tick(time.Second)
				}
			},
			want: explain.FactLacking,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				fact(t, x, explain.FactStarving)
				if len(x.Victims) == 0 {
					t.Error("nobody is likely to have to leave")
				}
			},
		},
	})
}

// TestExplainWhatIsAllThereIs has operations with all that they could have.
func TestExplainWhatIsAllThereIs(t *testing.T) {
	explainAll(t, map[string]situation{
		"all that there is, is its own": {
			pools: plainPools,
			setup: func(d *drive) {
				d.node("n1", 4)
				d.wants("op", "a", 9, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want: explain.FactOwn,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if f := x.Facts[0]; f.Value != 1 || f.Bound != 1 {
					t.Errorf("fact %+v", f)
				}
				if !slices.ContainsFunc(x.Facts, func(f explain.Fact) bool { return f.Text == "the operation has all cpu of the tree as its fair share" }) {
					t.Errorf("share %+v of %+v", x.Share, x.Facts)
				}
			},
		},
		"a single job is beyond a limit": {
			pools: map[scheduling.PoolName]pool{"a": {options: options{"resource_limits": options{"cpu": 0.5}}}},
			setup: func(d *drive) {
				d.node("n1", 8)
				d.wants("op", "a", 5, slotsOf(1), nil)
				d.pass(2*time.Second, time.Second, "n1")
			},
			want: explain.FactLimit,
			check: func(t *testing.T, _ *drive, x explain.Explanation) {
				if f := x.Facts[0]; !strings.Contains(f.Text, "at most 0.5 cpu, but a single job needs 1 cpu; until that changes such jobs do not count as demand") {
					t.Errorf("fact %+v", f)
				}
			},
		},
	})
}
