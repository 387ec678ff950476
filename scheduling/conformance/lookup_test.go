package conformance_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// lookup returns the vector that a path such as pool.fair_share.total names.
func (k *checker) lookup(path string) (resource.Vector, error) {
	id, field, _ := strings.Cut(path, ".")
	e := k.elements[id]
	if e == nil {
		return resource.Vector{}, fmt.Errorf("unknown element %q", id)
	}
	if v, ok := vectors(e)[field]; ok {
		return v, nil
	}
	if part, ok := strings.CutPrefix(field, "fair_share."); ok {
		if v, ok := named(e.Parts())[part]; ok {
			return v, nil
		}
	}
	return resource.Vector{}, fmt.Errorf("unknown field %q", path)
}

func (k *checker) pool(id string) (*fairshare.Pool, error) {
	if e := k.elements[id]; e != nil && e.Pool != nil {
		return e.Pool, nil
	}
	return nil, fmt.Errorf("unknown pool %q", id)
}

// vector compares shares; null stands for one that was not asserted.
func (k *checker) vector(id, field string, got resource.Vector, want json.RawMessage, eps tolerance) error {
	var all []*float64
	if err := strict(want, &all); err != nil {
		return err
	}
	if len(all) != resource.Count {
		return fmt.Errorf("%d components", len(all))
	}
	for r, w := range all {
		if w != nil {
			name := resource.Kind(r).String()
			k.number(id, field+"."+name, got[r], *w, eps.of(name))
		}
	}
	return nil
}

// byName compares numbers by resource; only those that are wanted count.
func (k *checker) byName(id, field string, got, want map[string]float64, eps tolerance) {
	for name, w := range want {
		g, known := got[name]
		if !known {
			g = math.NaN()
		}
		k.number(id, field+"."+name, g, w, eps.of(name))
	}
}

// index compares an index; null stands for none.
func (k *checker) index(id, field string, got int32, want json.RawMessage) error {
	var w *int32
	if err := strict(want, &w); err != nil {
		return err
	}
	if w == nil {
		k.equal(id, field, "", got, int32(-1))
		return nil
	}
	k.equal(id, field, "", got, *w)
	return nil
}

func (k *checker) number(id, component string, got, want, eps float64) {
	k.result.checks++
	if !(math.Abs(got-want) <= eps) {
		k.mismatch(id, component, got, want)
	}
}

func (k *checker) equal(id, component string, detail, got, want any) {
	k.result.checks++
	if got != want {
		k.mismatch(id, fmt.Sprint(component, " ", detail), got, want)
	}
}

func (k *checker) mismatch(id, component string, got, want any) {
	k.result.mismatches = append(k.result.mismatches,
		fmt.Sprintf("case %s: element %s: %s: got %v, want %v", k.name, id, component, got, want))
}

// full returns all amounts by name, zeros too.
func full(a resource.Amounts) map[string]float64 {
	m := map[string]float64{}
	for kind := range resource.Kind(resource.Count) {
		m[kind.String()] = 0
	}
	for name, amount := range a.Map() {
		m[name] = amount
	}
	return m
}
