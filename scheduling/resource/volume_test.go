package resource_test

import (
	"testing"
	"time"

	"weir/scheduling/resource"
)

func TestVolumeOf(t *testing.T) {
	cases := map[string]struct {
		give resource.Amounts
		time time.Duration
		want resource.Volume
	}{
		"whole seconds":             {resource.Amounts{UserSlots: 2, CPU: 150, Memory: 10}, 3 * time.Second, resource.Volume{UserSlots: 6, CPU: 450, Memory: 30}},
		"one cpu for a millisecond": {resource.Amounts{UserSlots: 1, CPU: 100}, time.Millisecond, resource.Volume{UserSlots: 0.001}},
		"ten of them":               {resource.Amounts{CPU: 1000}, time.Millisecond, resource.Volume{CPU: 1}},
		"no time":                   {resource.Amounts{UserSlots: 1, CPU: 1, GPU: 1, Memory: 1, Network: 1}, 0, resource.Volume{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := resource.VolumeOf(tc.give, tc.time); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestVolumes(t *testing.T) {
	a := resource.Volume{UserSlots: 1, CPU: 200, GPU: 3, Memory: 4, Network: 5}
	b := resource.Volume{UserSlots: 5, CPU: 400, GPU: 3, Memory: 2, Network: 1}
	for name, tc := range map[string]struct{ got, want resource.Volume }{
		"add":                  {a.Add(b), resource.Volume{UserSlots: 6, CPU: 600, GPU: 6, Memory: 6, Network: 6}},
		"sub":                  {a.Sub(b), resource.Volume{UserSlots: -4, CPU: -200, Memory: 2, Network: 4}},
		"min":                  {a.Min(b), resource.Volume{UserSlots: 1, CPU: 200, GPU: 3, Memory: 2, Network: 1}},
		"max":                  {a.Max(b), resource.Volume{UserSlots: 5, CPU: 400, GPU: 3, Memory: 4, Network: 5}},
		"scaled, cpu rounded":  {a.Scale(0.0026), resource.Volume{UserSlots: 0.0026, CPU: 1, GPU: 3 * 0.0026, Memory: 4 * 0.0026, Network: 5 * 0.0026}},
		"cpu is set in cores":  {a.With(resource.CPU, 1.234), resource.Volume{UserSlots: 1, CPU: 123, GPU: 3, Memory: 4, Network: 5}},
		"another one is set":   {a.With(resource.Memory, 9), resource.Volume{UserSlots: 1, CPU: 200, GPU: 3, Memory: 9, Network: 5}},
		"nothing is left over": {a.Sub(a), resource.Volume{}},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, tc.got, tc.want)
		}
	}
	if !a.Sub(a).IsZero() || a.IsZero() {
		t.Error("IsZero")
	}
	if m := a.Map(); m["cpu"] != 2 || m["memory"] != 4 || len(m) != resource.Count {
		t.Errorf("by name: %v", m)
	}
}

func TestMinRatio(t *testing.T) {
	v := resource.Volume{UserSlots: 10, CPU: 400, Memory: 50}
	cases := map[string]struct {
		total resource.Amounts
		want  float64
	}{
		"the least":             {resource.Amounts{UserSlots: 1, CPU: 100, Memory: 10}, 4},
		"what is not there":     {resource.Amounts{UserSlots: 1, Memory: 10}, 5},
		"none of what is there": {resource.Amounts{GPU: 1, Memory: 10}, 0},
		"nothing":               {resource.Amounts{}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := v.MinRatio(tc.total); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSharesOfTotals(t *testing.T) {
	total := resource.Amounts{UserSlots: 10, CPU: 100, Memory: 1000}
	if got, want := (resource.Vector{.25, .333, 1, .5, 1}).Amounts(total), (resource.Amounts{UserSlots: 3, CPU: 33, Memory: 500}); got != want {
		t.Errorf("amounts %v, want %v", got, want)
	}
	if got := resource.MaxRatio(resource.Amounts{UserSlots: 1, CPU: 50, GPU: 9}, total); got != .5 {
		t.Errorf("greatest ratio %v, want 0.5", got)
	}
	if got := (resource.Amounts{}).Truncated(resource.Memory, 1.67).Truncated(resource.CPU, 1.67); got != (resource.Amounts{Memory: 1, CPU: 2}) {
		t.Errorf("truncated %v", got)
	}
	if v := resource.Uniform(.5); !resource.Ones.Dominates(v) || v.Dominates(resource.Ones) || !v.Dominates(v) {
		t.Error("Dominates")
	}
}
