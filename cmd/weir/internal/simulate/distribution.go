package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"weir/scheduling/resource"
)

// Distribution is a number that is drawn: always the same one, or by chance.
type Distribution struct {
	shape shape
	// a and b are the bounds, the mean, or the median and the width.
	a, b float64
	// values are those of an empirical one, sorted; sums are their weights, added up.
	values, sums []float64
	// least and most bound what is drawn.
	least, most float64
}

// shape is how numbers are spread.
type shape int

const (
	constant shape = iota
	uniform
	exponential
	lognormal
	empirical
)

// shapes are the names of what is not constant.
var shapes = []string{"uniform", "exponential", "lognormal", "empirical"}

// unit reads numbers of one kind: seconds, bytes, or plain ones.
type unit func(value any) (float64, error)

func inSeconds(value any) (float64, error) {
	d, err := durationOf(value)
	return d.Seconds(), err
}

func inBytes(value any) (float64, error) {
	text, ok := value.(string)
	if !ok {
		return inNumbers(value)
	}
	size, err := resource.ParseSize(text)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("is %q: a size is needed, such as 4GiB", text)
	}
	return float64(size), nil
}

func inNumbers(value any) (float64, error) {
	n, ok := value.(float64)
	if !ok || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, fmt.Errorf("is %s: a number from 0 on is needed", described(value))
	}
	return n, nil
}

// always returns the distribution of one number.
func always(x float64) Distribution { return Distribution{a: x, most: math.Inf(1)} }

// Most is the greatest number that may be drawn.
func (d Distribution) Most() float64 {
	most := d.most
	switch d.shape {
	case constant:
		most = d.a
	case uniform:
		most = d.b
	case empirical:
		if len(d.values) > 0 {
			most = slices.Max(d.values)
		}
	}
	return max(min(most, d.most), d.least)
}

// distribution reads a number, or how it is drawn.
func (f *fields) distribution(name string, missing Distribution, of unit) Distribution {
	value, given := f.get(name)
	if !given {
		return missing
	}
	at := f.at.to(name)
	if _, isObject := value.(map[string]any); !isObject {
		x, err := of(value)
		if err != nil {
			f.fault(at, "%v, or an object with one of uniform, exponential, lognormal, empirical", err)
			return missing
		}
		return always(x)
	}
	inner, _ := f.object(at, value)
	d := Distribution{most: math.Inf(1)}
	found := 0
	for i, name := range shapes {
		value, ok := inner.get(name)
		if !ok {
			continue
		}
		found++
		d.shape = shape(i + 1)
		if err := d.read(value, of); err != nil {
			f.fault(at.to(name), "%v", err)
		}
	}
	if found != 1 {
		f.fault(at, "exactly one of uniform, exponential, lognormal, empirical is needed")
	}
	for name, bound := range map[string]*float64{"least": &d.least, "most": &d.most} {
		if value, ok := inner.get(name); ok {
			x, err := of(value)
			if err != nil {
				f.fault(at.to(name), "%v", err)
			}
			*bound = x
		}
	}
	if d.least > d.most {
		f.fault(at, "least is more than most")
	}
	inner.end()
	return d
}

// read sets what the shape needs.
func (d *Distribution) read(value any, of unit) (err error) {
	switch d.shape {
	case uniform:
		d.a, d.b, err = pair(value, of)
	case exponential:
		if d.a, err = of(value); err == nil && d.a == 0 {
			err = errors.New("a mean above 0 is needed")
		}
	case lognormal:
		return d.readLognormal(value, of)
	case empirical:
		return d.readEmpirical(value, of)
	case constant:
	}
	return err
}

func pair(value any, of unit) (a, b float64, err error) {
	items, _ := value.([]any)
	if len(items) != 2 {
		return 0, 0, fmt.Errorf("is %s: the two bounds are needed, such as [1m, 10m]", described(value))
	}
	if a, err = of(items[0]); err == nil {
		b, err = of(items[1])
	}
	if err == nil && a > b {
		err = errors.New("the first bound is more than the second")
	}
	return a, b, err
}

func (d *Distribution) readLognormal(value any, of unit) (err error) {
	object, ok := value.(map[string]any)
	if !ok || len(object) != 2 || object["median"] == nil || object["sigma"] == nil {
		return errors.New("the median and the width are needed, such as {median: 10m, sigma: 1.2}")
	}
	if d.a, err = of(object["median"]); err != nil {
		return fmt.Errorf("median %w", err)
	}
	if d.b, err = inNumbers(object["sigma"]); err != nil {
		return fmt.Errorf("sigma %w", err)
	}
	if d.a == 0 || d.b > 10 {
		return errors.New("a median above 0 and a sigma of at most 10 are needed")
	}
	return nil
}

// readEmpirical reads values that are as likely as they are often there, or objects
// with a value and a weight.
func (d *Distribution) readEmpirical(value any, of unit) error {
	items, ok := value.([]any)
	if !ok || len(items) == 0 {
		return fmt.Errorf("is %s: a list of values is needed, such as [1m, 5m, {value: 2h, weight: 0.1}]", described(value))
	}
	type weighted struct{ x, weight float64 }
	all := make([]weighted, len(items))
	for i, item := range items {
		w := weighted{weight: 1}
		var err error
		if object, ok := item.(map[string]any); ok {
			if len(object) != 2 || object["value"] == nil || object["weight"] == nil {
				return fmt.Errorf("item %d: write it as {value: 2h, weight: 0.1}", i+1)
			}
			if w.weight, err = inNumbers(object["weight"]); err != nil {
				return fmt.Errorf("item %d: weight %w", i+1, err)
			}
			item = object["value"]
		}
		if w.x, err = of(item); err != nil {
			return fmt.Errorf("item %d %w", i+1, err)
		}
		all[i] = w
	}
	slices.SortStableFunc(all, func(a, b weighted) int { return compare(a.x, b.x) })
	sum := 0.0
	for _, w := range all {
		sum += w.weight
		d.values, d.sums = append(d.values, w.x), append(d.sums, sum)
	}
	if sum == 0 {
		return errors.New("all weights are 0")
	}
	return nil
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Draw returns a number by chance.
func (d Distribution) Draw(chance *rand.Rand) float64 {
	x := d.a
	switch d.shape {
	case uniform:
		x += (d.b - d.a) * chance.Float64()
	case exponential:
		x *= chance.ExpFloat64()
	case lognormal:
		x *= math.Exp(d.b * chance.NormFloat64())
	case empirical:
		at := chance.Float64() * d.sums[len(d.sums)-1]
		i, _ := slices.BinarySearchFunc(d.sums, at, func(sum, at float64) int {
			if sum <= at {
				return -1
			}
			return 1
		})
		x = d.values[min(i, len(d.values)-1)]
	case constant:
	}
	return min(max(x, d.least), d.most)
}
