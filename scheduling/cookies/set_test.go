package cookies_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling"
	"weir/scheduling/cookies"
)

// TestSetAgainstMap drives a set and a plain map with the same steps.
func TestSetAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set cookies.IntervalSet
		model := map[scheduling.Cookie]bool{}
		cookie := rapid.Custom(func(t *rapid.T) scheduling.Cookie {
			return scheduling.Cookie(rapid.IntRange(0, 30).Draw(t, "cookie"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				c := cookie.Draw(t, "c")
				if got, want := set.Add(c), !model[c]; got != want {
					t.Fatalf("Add(%d) = %v, want %v", c, got, want)
				}
				model[c] = true
			},
			"add interval": func(t *rapid.T) {
				i := cookies.Interval{Begin: cookie.Draw(t, "begin"), End: cookie.Draw(t, "end")}
				var want int64
				for c := i.Begin; c < i.End; c++ {
					if !model[c] {
						want++
					}
					model[c] = true
				}
				if got := set.AddInterval(i); got != want {
					t.Fatalf("AddInterval(%v) = %d, want %d", i, got, want)
				}
			},
			"remove": func(t *rapid.T) {
				c := cookie.Draw(t, "c")
				if got := set.Remove(c); got != model[c] {
					t.Fatalf("Remove(%d) = %v, want %v", c, got, model[c])
				}
				delete(model, c)
			},
			"pop first": func(t *rapid.T) {
				want := sorted(model)
				got, ok := set.PopFirst()
				if ok != (len(want) > 0) || (ok && got != want[0]) {
					t.Fatalf("PopFirst() = %d, %v, want the first of %v", got, ok, want)
				}
				delete(model, got)
			},
			"": func(t *rapid.T) { check(t, &set, model) },
		})
	})
}

func check(t *rapid.T, set *cookies.IntervalSet, model map[scheduling.Cookie]bool) {
	want := sorted(model)
	if got := slices.Collect(set.All()); !slices.Equal(got, want) {
		t.Fatalf("set holds %v, want %v", got, want)
	}
	if set.Len() != int64(len(want)) {
		t.Fatalf("Len() = %d, want %d", set.Len(), len(want))
	}
	for c := scheduling.Cookie(0); c <= 31; c++ {
		if set.Contains(c) != model[c] {
			t.Fatalf("Contains(%d) = %v, want %v", c, set.Contains(c), model[c])
		}
	}
	intervals := set.Intervals()
	for i := 1; i < len(intervals); i++ {
		if intervals[i-1].End >= intervals[i].Begin {
			t.Fatalf("intervals %v are not the fewest", intervals)
		}
	}
	again, err := cookies.FromIntervals(intervals)
	if err != nil || !again.Equal(set) {
		t.Fatalf("FromIntervals(%v) = %v, %v", intervals, again, err)
	}
}

func sorted(model map[scheduling.Cookie]bool) []scheduling.Cookie {
	var all []scheduling.Cookie
	for c, in := range model {
		if in {
			all = append(all, c)
		}
	}
	slices.Sort(all)
	return all
}

func TestFromIntervals(t *testing.T) {
	cases := map[string]struct {
		give    []cookies.Interval
		want    []cookies.Interval
		wantErr string
	}{
		"nothing":             {nil, nil, ""},
		"touching are joined": {[]cookies.Interval{{0, 2}, {2, 5}}, []cookies.Interval{{0, 5}}, ""},
		"an empty interval": {[]cookies.Interval{{3, 3}}, nil,
			"cookie interval 0 [3, 3): it must begin at 0 or later, and end after its begin"},
		"overlapping": {[]cookies.Interval{{0, 4}, {3, 5}}, nil,
			"cookie interval 1 [3, 5): it must begin at 4 or later, and end after its begin"},
		"negative": {[]cookies.Interval{{-1, 4}}, nil,
			"cookie interval 0 [-1, 4): it must begin at 0 or later, and end after its begin"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := cookies.FromIntervals(tc.give)
			if got := errorText(err); got != tc.wantErr {
				t.Fatalf("error %q, want %q", got, tc.wantErr)
			}
			if got := set.Intervals(); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCloneSharesNothing(t *testing.T) {
	a := cookies.Range(0, 10)
	b := a.Clone()
	b.Remove(0)
	b.Remove(5)
	if want := cookies.Range(0, 10); !a.Equal(&want) {
		t.Errorf("a change of the clone reached the original: %v", a.Intervals())
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
