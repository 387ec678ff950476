package remote

import (
	"slices"
	"testing"
)

func TestPendingAnswersOnce(t *testing.T) {
	p := newPending[string](2)
	a, b := p.add("a"), p.add("b")
	if !p.full() {
		t.Error("2 of 2 are open and there is room")
	}
	if got, ok := p.take(a); !ok || got != "a" {
		t.Errorf("took %q, %v", got, ok)
	}
	for name, id := range map[string]uint64{"answered already": a, "never asked": b + 1, "no id": 0} {
		if got, ok := p.take(id); ok {
			t.Errorf("%s: took %q", name, got)
		}
	}
	if c := p.add("c"); c == a {
		t.Error("an id was used twice")
	}
	all := p.drain()
	slices.Sort(all)
	if !slices.Equal(all, []string{"b", "c"}) || len(p.drain()) != 0 {
		t.Errorf("drained %v", all)
	}
}
