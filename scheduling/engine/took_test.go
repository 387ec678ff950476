package engine

import (
	"slices"
	"testing"
)

// TestTook: however many jobs end, and whatever the order of their run times, a took represents all of them.
func TestTook(t *testing.T) {
	for _, n := range []int{1, 150, 200, 5000} {
		var k took
		for i := range n {
			// Those that end last run longest.
			k.add(float64(i+1) / float64(n))
		}
		if k.ended != int64(n) || k.digest.Count() > mostTook {
			t.Errorf("of %d jobs, %d count and %d are kept", n, k.ended, k.digest.Count())
		}
		points := k.digest.Points(pointsKept)
		if middle := points[len(points)/2]; n > 1 && (middle < .45 || middle > .56) || !slices.IsSorted(points) {
			t.Errorf("of %d jobs, half take up to %g, want .5: %v", n, middle, points)
		}
	}
}
