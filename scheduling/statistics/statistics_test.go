package statistics

import (
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBucket(t *testing.T) {
	for story, test := range map[string]struct {
		value        int64
		want         int32
		wantL, wantG int64
	}{
		"nothing":                {0, 0, 0, 0},
		"small ones are exact":   {31, 31, 31, 31},
		"up to 63":               {63, 63, 63, 63},
		"then two share one":     {65, 64, 64, 65},
		"a gibibyte":             {1 << 30, 26*32 - 32 + 32, 1 << 30, 1<<30 + 1<<25 - 1},
		"the greatest":           {math.MaxInt64, 1887 + 0, math.MaxInt64 - 1<<57 + 1, math.MaxInt64},
		"one below nothing":      {-1, -1, -1, -1},
		"negative mirrors":       {-65, -64, -65, -64},
		"the least has a bucket": {math.MinInt64, -1888, -math.MaxInt64, -(math.MaxInt64 - 1<<57 + 1)},
	} {
		t.Run(story, func(t *testing.T) {
			got := Bucket(test.value)
			least, greatest := Bounds(got)
			if got != test.want || least != test.wantL || greatest != test.wantG {
				t.Errorf("bucket %d holds %d to %d, want %d: %d to %d", got, least, greatest, test.want, test.wantL, test.wantG)
			}
		})
	}
}

func TestBucketsAreNarrowAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if a < b && Bucket(a) > Bucket(b) {
			t.Fatalf("%d is in bucket %d, %d in %d", a, Bucket(a), b, Bucket(b))
		}
		least, greatest := Bounds(Bucket(a))
		if a != math.MinInt64 && (a < least || a > greatest) {
			t.Fatalf("%d is not in its bucket, %d to %d", a, least, greatest)
		}
		if width := greatest - least; a > 0 && width > least/32 {
			t.Fatalf("the bucket of %d is %d wide", a, width)
		}
	})
}

func TestAggregate(t *testing.T) {
	var a Aggregate
	if a.Quantile(.5) != 0 || a.Mean() != 0 {
		t.Error("an empty aggregate knows values")
	}
	for v := int64(1); v <= 1000; v++ {
		a.Add(v)
	}
	if a.Count != 1000 || a.Sum != 500500 || a.Min != 1 || a.Max != 1000 || a.Mean() != 500 {
		t.Errorf("got %+v", a)
	}
	for q, want := range map[float64]int64{0: 1, .05: 50, .5: 500, .95: 950, 1: 1000} {
		if got := a.Quantile(q); math.Abs(float64(got-want)) > float64(want)/32 {
			t.Errorf("quantile %v is %d, want %d or so", q, got, want)
		}
	}
	var top Aggregate
	top.Add(math.MaxInt64)
	top.Add(math.MaxInt64)
	if top.Sum != math.MaxInt64 {
		t.Errorf("a sum that is too great is %d", top.Sum)
	}
}

// TestHistogramsThatWent drops histograms and goes on: there is none with a part of the values, in
// whichever order sets are merged. Names that are new get one.
func TestHistogramsThatWent(t *testing.T) {
	var sums Sums
	add := func(to func(string, []byte, map[string]int64) error, values map[string]int64) {
		t.Helper()
		packed, others := pack(values)
		if err := to("completed", packed, others); err != nil {
			t.Fatal(err)
		}
	}
	add(sums.Add, map[string]int64{TimeExec: 10})
	add(sums.AddWithoutRoom, map[string]int64{TimeExec: 30, TimeTotal: 7})
	add(sums.Add, map[string]int64{TimeExec: 50, TimePrepare: 5})
	exec, total, prepare := sums.Of(TimeExec, "completed"), sums.Of(TimeTotal, "completed"), sums.Of(TimePrepare, "completed")
	if want := (Aggregate{Count: 3, Sum: 90, Min: 10, Max: 50}); !reflect.DeepEqual(exec, want) || exec.Quantile(.5) != 50 {
		t.Errorf("got %+v, want %+v", exec, want)
	}
	if total.Count != 0 || prepare.Count != 1 || len(prepare.Buckets) != 1 {
		t.Errorf("new without room: %+v, and with room: %+v", total, prepare)
	}
	var whole Aggregate
	whole.Add(20)
	ahead, behind := exec.Clone(), whole.Clone()
	ahead.Merge(whole)
	behind.Merge(exec)
	if want := (Aggregate{Count: 4, Sum: 110, Min: 10, Max: 50}); !reflect.DeepEqual(ahead, want) || !reflect.DeepEqual(behind, want) {
		t.Errorf("merged %+v and %+v, want %+v", ahead, behind, want)
	}
}

func TestMergeIsTheSameInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Int64Range(-1<<40, 1<<40)).Draw(t, "values")
		cut := rapid.IntRange(0, len(values)).Draw(t, "cut")
		var all, first, second Aggregate
		for i, v := range values {
			all.Add(v)
			if i < cut {
				first.Add(v)
			} else {
				second.Add(v)
			}
		}
		ahead, behind := first.Clone(), second.Clone()
		ahead.Merge(second)
		behind.Merge(first)
		if !reflect.DeepEqual(ahead, behind) || !reflect.DeepEqual(ahead, all) {
			t.Fatalf("merged %+v and %+v, at once %+v", ahead, behind, all)
		}
	})
}

func TestSet(t *testing.T) {
	var s Set
	s.Add("failed", map[string]int64{"b": 3, "a": 1})
	s.Add("completed", map[string]int64{"a": 5})
	s.Add("completed", map[string]int64{"a": 7})
	if !slices.IsSortedFunc(s, func(a, b Entry) int {
		return strings.Compare(a.Name+"\x00"+a.State, b.Name+"\x00"+b.State)
	}) || len(s) != 3 {
		t.Errorf("not sorted, or not three: %+v", s)
	}
	completed, none := s.Of("a", "completed"), s.Of("b", "completed")
	if completed.Sum != 12 || none.Count != 0 {
		t.Errorf("completed: %+v and %+v", completed, none)
	}
	if total := s.Total("a"); total.Count != 3 || total.Sum != 13 {
		t.Errorf("total %+v", total)
	}
	var merged Set
	merged.Merge(s)
	merged.Merge(s)
	if b := merged.Of("b", "failed"); b.Count != 2 {
		t.Errorf("merged twice: %+v", b)
	}
	if completed = s.Of("a", "completed"); completed.Count != 2 {
		t.Errorf("merging has changed what was merged: %+v", completed)
	}
}

func TestSetIsBounded(t *testing.T) {
	var s Set
	for i := range MaxNames + 10 {
		s.Add("completed", map[string]int64{string(rune('A' + i)): 1})
	}
	s.Add("failed", map[string]int64{"A": 1, "unheard of": 1})
	if got := len(s); got != MaxNames+1 {
		t.Errorf("%d aggregates, want %d", got, MaxNames+1)
	}
}

func TestNames(t *testing.T) {
	all := All()
	for _, d := range all {
		if got, ok := Describe(d.Name); !ok || got != d || d.Unit == "" || d.Text == "" {
			t.Errorf("%s is described as %+v", d.Name, got)
		}
	}
	if len(all) >= MaxNames {
		t.Errorf("%d names leave no room for those of later versions", len(all))
	}
	if _, ok := Describe("user_job/mood"); ok {
		t.Error("a name that is not known is described")
	}
}

func TestCumulative(t *testing.T) {
	for story, test := range map[string]struct{ amount, millis, want int64 }{
		"whole seconds":             {100, 3000, 300},
		"truncated":                 {1, 1999, 1},
		"of nothing":                {0, 1000, 0},
		"of no time":                {100, 0, 0},
		"of a clock that goes back": {100, -5, 0},
		"no room":                   {math.MaxInt64, 2000, math.MaxInt64},
		"far from having room":      {math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		t.Run(story, func(t *testing.T) {
			if got := Cumulative(test.amount, test.millis); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		amount, millis := rapid.Int64Range(0, math.MaxInt64).Draw(t, "amount"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "millis")
		want := new(big.Int).Div(new(big.Int).Mul(big.NewInt(amount), big.NewInt(millis)), big.NewInt(1000))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := Cumulative(amount, millis); got != want.Int64() {
			t.Fatalf("%d for %d ms: got %d, want %v", amount, millis, got, want)
		}
	})
}
