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

func TestWatchesEndOnce(t *testing.T) {
	w := newWatches[string](2)
	key := func(target string) watchKey { return watchKey{watcher: "me", target: target} }
	a, fresh := w.add(key("a"), "tell me")
	if a == 0 || !fresh {
		t.Fatalf("first watch: %d, %v", a, fresh)
	}
	if again, fresh := w.add(key("a"), "tell me"); again != a || fresh {
		t.Errorf("same watch: %d, %v; want %d, not fresh", again, fresh, a)
	}
	b, _ := w.add(key("b"), "tell me")
	if id, _ := w.add(key("c"), "tell me"); id != 0 {
		t.Errorf("third of two watches: %d", id)
	}
	if target, tell, ok := w.take(a); !ok || target != "a" || tell != "tell me" {
		t.Errorf("took %q, %q, %v", target, tell, ok)
	}
	if _, _, ok := w.take(a); ok {
		t.Error("ended twice")
	}
	if id, ok := w.remove(key("b")); !ok || id != b {
		t.Errorf("removed %d, %v", id, ok)
	}
	if _, ok := w.remove(key("b")); ok {
		t.Error("removed twice")
	}
	if _, _, ok := w.take(0); ok {
		t.Error("took a watch that never was")
	}
	w.add(key("d"), "tell me")
	if left := w.drain(); len(left) != 1 || left[0].key.target != "d" || len(w.drain()) != 0 {
		t.Errorf("drained %+v", left)
	}
}
