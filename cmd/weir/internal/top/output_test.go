package top

import "testing"

// TestWholeRunes leaves a character that is cut to the next part, and other bytes as they are.
func TestWholeRunes(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "abü": 4, "ab\xc3": 2, "ab\xe2\x96": 2, "ab\xff": 3, "\xe2": 1} {
		if got := wholeRunes([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
