package resource_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/resource"
)

func drawAmounts(t *rapid.T, label string) resource.Amounts {
	n := rapid.Int64Range(-1<<40, 1<<40)
	return resource.Amounts{
		UserSlots: n.Draw(t, label+" slots"), CPU: resource.Hundredths(n.Draw(t, label+" cpu")), GPU: n.Draw(t, label+" gpu"),
		Memory: n.Draw(t, label+" memory"), Network: n.Draw(t, label+" network"),
	}
}

func TestArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawAmounts(t, "a"), drawAmounts(t, "b")
		n := rapid.Int64Range(-1000, 1000).Draw(t, "n")
		for k := range resource.Kind(resource.Count) {
			x, y := a.Of(k), b.Of(k)
			for name, got := range map[string][2]int64{
				"Add":   {a.Add(b).Of(k), x + y},
				"Sub":   {a.Sub(b).Of(k), x - y},
				"Min":   {a.Min(b).Of(k), min(x, y)},
				"Max":   {a.Max(b).Of(k), max(x, y)},
				"Times": {a.Times(n).Of(k), x * n},
				"Scale": {a.Scale(0.25).Of(k), int64(math.Round(float64(x) / 4))},
				"With":  {a.With(k, y).Of(k), y},
			} {
				if got[0] != got[1] {
					t.Fatalf("%s of %s: got %d, want %d", name, k, got[0], got[1])
				}
			}
			if others := a.With(k, 0).Sub(a.With(k, 1)); others != (resource.Amounts{}).With(k, -1) {
				t.Fatalf("With(%s) changes another resource: %v", k, others)
			}
		}
		if got := a.Max(b); !got.Dominates(a) || !got.Dominates(b) || (got != a && a.Dominates(got)) {
			t.Fatalf("Max %v does not go with Dominates", got)
		}
		if _, lacks := a.Lacking(b); lacks == a.Fits(b) {
			t.Fatalf("Lacking says %v, Fits says %v", lacks, a.Fits(b))
		}
		one := resource.Amounts{UserSlots: 1, CPU: 1, GPU: 1, Memory: 1, Network: 1}
		if !a.Add(one).StrictlyDominates(a) || a.StrictlyDominates(a) {
			t.Fatal("StrictlyDominates is not strict dominance")
		}
	})
}

func TestSaturation(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	amounts := func(n int64) resource.Amounts {
		return resource.Amounts{UserSlots: n, CPU: resource.Hundredths(n), GPU: n, Memory: n, Network: n}
	}
	cases := map[string]struct{ got, want resource.Amounts }{
		"add above":         {amounts(most).Add(amounts(1)), amounts(most)},
		"add below":         {amounts(least).Add(amounts(-1)), amounts(least)},
		"sub below":         {amounts(least).Sub(amounts(1)), amounts(least)},
		"sub above":         {amounts(most).Sub(amounts(-1)), amounts(most)},
		"times above":       {resource.Infinite.Times(5), amounts(most)},
		"times below":       {resource.Infinite.Times(-5), amounts(least)},
		"the least negated": {amounts(least).Times(-1), amounts(most)},
		"minus one times":   {amounts(-1).Times(least), amounts(most)},
		"nothing times":     {amounts(0).Times(most), amounts(0)},
		"scale above":       {resource.Infinite.Scale(1e9), amounts(most)},
		"scale below":       {resource.Infinite.Scale(-1e9), amounts(least)},
		"infinite is a quarter, three fit": {
			resource.Infinite.Add(resource.Infinite).Add(resource.Infinite), resource.Infinite.Times(3)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %v, want %v", tc.got, tc.want)
			}
		})
	}
}

func TestShare(t *testing.T) {
	total := resource.Amounts{UserSlots: 10, CPU: 400, Memory: 1000}
	cases := map[string]struct {
		give         resource.Amounts
		want         resource.Vector
		wantDominant resource.Kind
	}{
		"nothing: cpu":                   {resource.Amounts{}, resource.Vector{}, resource.CPU},
		"memory is the most":             {resource.Amounts{UserSlots: 1, CPU: 100, Memory: 500}, resource.Vector{.1, .25, 0, .5, 0}, resource.Memory},
		"the first of equals":            {resource.Amounts{UserSlots: 5, CPU: 200, Memory: 500}, resource.Vector{.5, .5, 0, .5, 0}, resource.UserSlots},
		"of what is not there: no share": {resource.Amounts{GPU: 4, CPU: 4}, resource.Vector{0, .01, 0, 0, 0}, resource.CPU},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := resource.Share(tc.give, total); got != tc.want {
				t.Errorf("share %v, want %v", got, tc.want)
			}
			if got := resource.Dominant(tc.give, total); got != tc.wantDominant {
				t.Errorf("dominant %v, want %v", got, tc.wantDominant)
			}
		})
	}
}

func TestVector(t *testing.T) {
	a, b := resource.Vector{.1, .2, .3, .4, .5}, resource.Vector{.5, .4, .3, .2, .1}
	if got, want := a.Add(b), (resource.Vector{.6, .6, .6, .6, .6}); !got.Near(want, resource.Epsilon) {
		t.Errorf("Add: %v, want %v", got, want)
	}
	if got, want := a.Sub(b), (resource.Vector{-.4, -.2, 0, .2, .4}); !got.Near(want, resource.Epsilon) {
		t.Errorf("Sub: %v, want %v", got, want)
	}
	if got, want := a.Min(b), (resource.Vector{.1, .2, .3, .2, .1}); got != want {
		t.Errorf("Min: %v, want %v", got, want)
	}
	if got, want := a.Max(b), (resource.Vector{.5, .4, .3, .4, .5}); got != want {
		t.Errorf("Max: %v, want %v", got, want)
	}
	if a.MaxComponent() != .5 || slices.Min(a[:]) != .1 {
		t.Errorf("components from %v to %v, want .1 to .5", slices.Min(a[:]), a.MaxComponent())
	}
	if a.Near(b, .3) || !a.Near(b, .41) {
		t.Error("Near does not go by the greatest difference")
	}
	if a.Within(b, .3) || !a.Within(b, .41) || !a.Within(resource.Ones, 0) {
		t.Error("Within does not go by the greatest excess")
	}
	if a != (resource.Vector{.1, .2, .3, .4, .5}) {
		t.Errorf("a value was changed: %v", a)
	}
}

func TestFromMap(t *testing.T) {
	cases := map[string]struct {
		give    map[string]float64
		want    resource.Amounts
		wantErr string
	}{
		"all": {
			map[string]float64{"user_slots": 1, "cpu": 2.5, "gpu": 3, "memory": 4096, "network": 5},
			resource.Amounts{UserSlots: 1, CPU: 250, GPU: 3, Memory: 4096, Network: 5}, ""},
		"nothing":                          {nil, resource.Amounts{}, ""},
		"cpu is rounded to hundredths":     {map[string]float64{"cpu": 0.126}, resource.Amounts{CPU: 13}, ""},
		"others are cut towards zero":      {map[string]float64{"user_slots": 1.67}, resource.Amounts{UserSlots: 1}, ""},
		"an unknown name":                  {map[string]float64{"cpus": 1}, resource.Amounts{}, `unknown resource "cpus": use one of user_slots, cpu, gpu, memory, network`},
		"negative":                         {map[string]float64{"memory": -1}, resource.Amounts{}, "resource memory: negative amount -1"},
		"not a number":                     {map[string]float64{"cpu": math.NaN()}, resource.Amounts{}, "resource cpu: amount NaN is not a finite number"},
		"infinite":                         {map[string]float64{"gpu": math.Inf(1)}, resource.Amounts{}, "resource gpu: amount +Inf is not a finite number"},
		"absurd":                           {map[string]float64{"memory": 1e30}, resource.Amounts{}, "resource memory: amount 1e+30 is too much: it must be less than 2048PiB"},
		"of two errors the first by name":  {map[string]float64{"zinc": 1, "memory": -1}, resource.Amounts{}, "resource memory: negative amount -1"},
		"absurd only after the hundredths": {map[string]float64{"cpu": 2e17}, resource.Amounts{}, "resource cpu: amount 2e+19 is too much: the limit is 2305843009213693951"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := resource.FromMap(tc.give)
			if text := errorText(err); text != tc.wantErr || got != tc.want {
				t.Errorf("got %v, %q, want %v, %q", got, text, tc.want, tc.wantErr)
			}
		})
	}
	missing := resource.Infinite
	if got, err := resource.FromMapOr(map[string]float64{"gpu": 0}, missing); err != nil || got != missing.With(resource.GPU, 0) {
		t.Errorf("FromMapOr: got %v, %v", got, err)
	}
}

func TestMapRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAmounts(t, "a").Max(resource.Amounts{})
		got, err := resource.FromMap(a.Map())
		if err != nil || got != a {
			t.Fatalf("%v comes back as %v, %v", a, got, err)
		}
	})
	if got := (resource.Vector{.1, .2, .3, .4, .5}).Map(); len(got) != resource.Count || got["memory"] != .4 {
		t.Errorf("shares by name: %v", got)
	}
}

// FuzzFromMap holds every amount that is taken to the range in which sums are
// exact.
func FuzzFromMap(f *testing.F) {
	f.Add("cpu", 0.125)
	f.Add("memory", 1e18)
	f.Add("gpu", -1.0)
	f.Add("disk", 1.0)
	f.Add("network", math.Inf(1))
	f.Fuzz(func(t *testing.T, name string, amount float64) {
		a, err := resource.FromMap(map[string]float64{name: amount})
		if err != nil {
			if !a.IsZero() {
				t.Errorf("%q: %v is refused with %v", name, amount, a)
			}
			return
		}
		if a.Validate() != nil || !resource.Infinite.Dominates(a) {
			t.Errorf("%q: %v is taken as %v", name, amount, a)
		}
	})
}

func TestStrings(t *testing.T) {
	cases := map[string]struct{ got, want string }{
		"amounts":        {resource.Amounts{UserSlots: 1, CPU: 50, Memory: 1024}.String(), "user_slots=1 cpu=0.5 memory=1024"},
		"nothing":        {resource.Amounts{}.String(), "nothing"},
		"cores":          {resource.Cores(1.25).String(), "1.25"},
		"negative cores": {resource.Hundredths(-150).String(), "-1.5"},
		"kind":           {resource.GPU.String(), "gpu"},
		"unknown kind":   {resource.Kind(9).String(), "resource.Kind(9)"},
		"validate":       {errorText(resource.Amounts{GPU: -2, Memory: -1}.Validate()), "resource gpu: negative amount -2"},
		"valid":          {errorText(resource.Amounts{GPU: 2}.Validate()), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
	for k := range resource.Kind(resource.Count) {
		if got, err := resource.ParseKind(k.String()); err != nil || got != k {
			t.Errorf("ParseKind(%q) = %v, %v", k, got, err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
