package fairshare

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestGreatest finds the last number to the bit, near zero too.
func TestGreatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := math.Ldexp(rapid.Float64Range(0, 1).Draw(t, "last"), -rapid.IntRange(0, 1000).Draw(t, "how small"))
		calls := 0
		holds := func(x float64) bool {
			calls++
			return x <= last
		}
		if got := greatest(0, 1, holds); got != last {
			t.Fatalf("greatest: got %v, want %v", got, last)
		}
		if calls > 65 {
			t.Fatalf("%d calls", calls)
		}
		guess := last * (1 + rapid.Float64Range(-2e-14, 2e-14).Draw(t, "guess is off by"))
		if got := greatestNear(min(guess, 1), holds); got != last {
			t.Fatalf("greatestNear: got %v, want %v", got, last)
		}
	})
	if got := greatest(0, 1, func(float64) bool { return true }); got != 1 {
		t.Errorf("without a limit: %v", got)
	}
}
