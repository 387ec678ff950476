package changes

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// job is an element: at a place of the list, with an id and what may change.
type job struct {
	place int
	id    string
	state string
}

var jobs = Kind[job]{
	ID:      func(j job) string { return j.id },
	Compare: func(a, b job) int { return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.id, b.id)) },
	Equal:   func(a, b job) bool { return a == b },
}

func TestBetween(t *testing.T) {
	a, b, c := job{1, "a", "live"}, job{2, "b", "live"}, job{3, "c", "live"}
	for name, test := range map[string]struct {
		from, to []job
		wantPut  []job
		wantGone []string
	}{
		"nothing was there, nothing is": {},
		"the same":                      {from: []job{a, b}, to: []job{a, b}},
		"one joins":                     {from: []job{a, c}, to: []job{a, b, c}, wantPut: []job{b}},
		"one drains":                    {from: []job{a, b}, to: []job{a, {2, "b", "draining"}}, wantPut: []job{{2, "b", "draining"}}},
		"one is forgotten":              {from: []job{a, b, c}, to: []job{a, c}, wantGone: []string{"b"}},
		"one takes another's place":     {from: []job{a, b}, to: []job{a, {2, "z", "live"}}, wantPut: []job{{2, "z", "live"}}, wantGone: []string{"b"}},
		"one moves":                     {from: []job{a, b}, to: []job{b, {3, "a", "live"}}, wantPut: []job{{3, "a", "live"}}, wantGone: []string{"a"}},
		"all are forgotten":             {from: []job{a, b}, wantGone: []string{"a", "b"}},
		"all are new":                   {to: []job{a, b}, wantPut: []job{a, b}},
	} {
		t.Run(name, func(t *testing.T) {
			put, gone := jobs.Between(test.from, test.to)
			if !slices.Equal(put, test.wantPut) || !slices.Equal(gone, test.wantGone) {
				t.Errorf("put %v, gone %v; want %v and %v", put, gone, test.wantPut, test.wantGone)
			}
			if got := jobs.Apply(test.from, put, gone); !slices.Equal(got, test.to) {
				t.Errorf("%v with the changes is %v, want %v", test.from, got, test.to)
			}
		})
	}
}

// TestChangesMakeTheList changes lists at will: changes make the later one of the earlier
// one, and tell no more than differs.
func TestChangesMakeTheList(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) []job {
		list := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) job {
			return job{
				place: rapid.IntRange(0, 3).Draw(t, "place"), id: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "id")),
				state: rapid.SampledFrom([]string{"live", "draining", "gone"}).Draw(t, "state"),
			}
		}), 0, 10, func(j job) string { return j.id }).Draw(t, "list")
		slices.SortFunc(list, jobs.Compare)
		return list
	})
	rapid.Check(t, func(t *rapid.T) {
		from, to := draw.Draw(t, "from"), draw.Draw(t, "to")
		put, gone := jobs.Between(from, to)
		if got := jobs.Apply(from, put, gone); !slices.Equal(got, to) {
			t.Fatalf("%v with %v put and %v gone is %v, want %v", from, put, gone, got, to)
		}
		for _, j := range put {
			if slices.Contains(from, j) {
				t.Fatalf("%v is told again", j)
			}
		}
	})
}
