package engine_test

import (
	"testing"
	"time"

	"weir/scheduling"
)

// TestFirstJobAmongLargeOnes: a pool whose fair share has room for a job gets its first one, also
// where those that have more than theirs have large jobs alone; but not when without one of
// these they would have less than is promised to them.
func TestFirstJobAmongLargeOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes  int64
		weight float64
		want   int
	}{
		"they keep most of their share":         {4, 25, 1},
		"they would lose a half of it":          {1, 6, 0},
		"its own share has no room for the job": {4, 40, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, soon(nil), map[scheduling.PoolName]pool{"few": {}, "large": {options: options{"weight": tc.weight}}})
			nodes := []scheduling.NodeID{"a", "b", "c", "d"}[:tc.nodes]
			for _, n := range nodes {
				d.node(n, 16)
			}
			d.wants("large", "large", 100, slotsOf(8), nil)
			d.pass(2*time.Second, time.Second, nodes...)
			d.wants("few", "few", 1, slotsOf(2), nil)
			d.pass(5*time.Minute, time.Second, nodes...)
			if got := d.runs(); got["few"] != tc.want || len(d.victims) != tc.want {
				t.Errorf("%v run, and %d had to go; want %d of the first jobs", got, len(d.victims), tc.want)
			}
		})
	}
}
