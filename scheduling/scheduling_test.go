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

func TestPartOfID(t *testing.T) {
	const id = "01990000-aaaa-7000-8000-0000deadbeef"
	if short := scheduling.ShortID(id); short != "deadbeef" || !scheduling.IsPart(short) || !scheduling.HasPart(id, short) {
		t.Errorf("the short id is %q", short)
	}
	if short := scheduling.ShortID("j1"); short != "j1" {
		t.Errorf("an id that is short already becomes %q", short)
	}
	for name, want := range map[string]bool{"01990000": true, "0-8000-0000deadbeef": true, "dbeef": false, id: false, "*nightly": false, "Deadbeef": false, "sort-j": false} {
		if got := scheduling.IsPart(name); got != want {
			t.Errorf("IsPart(%q) = %t", name, got)
		}
	}
	if !scheduling.HasPart(id, "deadbe") {
		t.Error("the begin of the short id is no part")
	}
	if scheduling.HasPart(id, "aaaa-7000") {
		t.Error("the middle of an id is no part")
	}
}
