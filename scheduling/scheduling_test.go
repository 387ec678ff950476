package scheduling_test

import (
	"testing"

	"weir/scheduling"
)

func TestTokenOrder(t *testing.T) {
	cases := map[string]struct {
		a, b     scheduling.Token
		wantLess bool
	}{
		"an earlier index of the same term":   {scheduling.Token{Term: 2, Index: 7}, scheduling.Token{Term: 2, Index: 8}, true},
		"a later index of the same term":      {scheduling.Token{Term: 2, Index: 8}, scheduling.Token{Term: 2, Index: 7}, false},
		"an older term beats a greater index": {scheduling.Token{Term: 1, Index: 90}, scheduling.Token{Term: 2, Index: 8}, true},
		"equal":                               {scheduling.Token{Term: 2, Index: 8}, scheduling.Token{Term: 2, Index: 8}, false},
		"never granted is before all others":  {scheduling.Token{}, scheduling.Token{Term: 1}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Less(tc.b); got != tc.wantLess {
				t.Errorf("%v.Less(%v) = %v, want %v", tc.a, tc.b, got, tc.wantLess)
			}
		})
	}
	if got := (scheduling.Token{Term: 3, Index: 41}).String(); got != "3.41" {
		t.Errorf("String() = %q, want %q", got, "3.41")
	}
}
