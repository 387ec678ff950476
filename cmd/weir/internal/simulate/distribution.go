package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// unit is what a drawn number counts: a plain number, bytes or seconds.
type unit interface{ number | size | seconds }

type (
	number  float64
	size    float64
	seconds float64
)

// ReadOption implements option.Reader.
func (n *number) ReadOption(v *option.Value) error {
	if v.Kind != option.Number || v.Number < 0 {
		return fmt.Errorf("is %s: a number of at least 0 is needed", v)
	}
	*n = number(v.Number)
	return nil
}

// ReadOption implements option.Reader.
func (s *size) ReadOption(v *option.Value) error {
	if v.Kind != option.Text {
		return (*number)(s).ReadOption(v)
	}
	bytes, err := resource.ParseSize(v.Text)
	if err != nil || bytes < 0 {
		return fmt.Errorf("is %q: a size is needed, such as 4GiB", option.Clip(v.Text))
	}
	*s = size(bytes)
	return nil
}

// ReadOption implements option.Reader.
func (s *seconds) ReadOption(v *option.Value) error {
	var t span
	err := t.ReadOption(v)
	*s = seconds(t.Seconds())
	return err
}

// Distribution is where a number comes from: it is constant, or drawn at random.
type Distribution[T unit] struct {
	// draw returns a number of at most `greatest`. Draw clamps it to the range from `least` to
	// `most`.
	draw                  func(chance *rand.Rand) float64
	greatest, least, most float64
}

// Draw returns a random number of the distribution.
func (d *Distribution[T]) Draw(chance *rand.Rand) float64 {
	return min(max(d.draw(chance), d.least), d.most)
}

// Most is the greatest number that Draw can return.
func (d *Distribution[T]) Most() float64 { return max(min(d.greatest, d.most), d.least) }

// always returns the distribution of one number.
func always[T unit](x T) Distribution[T] {
	return Distribution[T]{draw: func(*rand.Rand) float64 { return float64(x) }, greatest: float64(x), most: math.Inf(1)}
}

// drawn is the object of a file that describes a distribution.
type drawn[T unit] struct {
	Uniform     []T           `option:"uniform" kind:"list of bounds"`
	Exponential *T            `option:"exponential"`
	Lognormal   *lognormal[T] `option:"lognormal"`
	Empirical   []weighted[T] `option:"empirical" kind:"list of values"`
	Least       *T            `option:"least"`
	Most        *T            `option:"most"`
}

type lognormal[T unit] struct {
	Median *T       `option:"median" required:"the median and the width are needed, such as {median: 10m, sigma: 1.2}"`
	Sigma  *float64 `option:"sigma" min:"0" max:"10" required:"the median and the width are needed, such as {median: 10m, sigma: 1.2}"`
}

// weighted is a value with its weight: its likelihood relative to the others.
type weighted[T unit] struct {
	Value  *T       `option:"value" required:"write it as {value: 2h, weight: 0.1}"`
	Weight *float64 `option:"weight" min:"0" required:"write it as {value: 2h, weight: 0.1}"`
}

// ReadOption implements option.Reader. A value alone weighs 1.
func (w *weighted[T]) ReadOption(v *option.Value) error {
	if v.Kind == option.Object {
		r := option.Reading{Separator: "."}
		r.Options(w, v, "")
		return option.NewError(r.Faults)
	}
	w.Value, w.Weight = new(T), new(1.0)
	return any(w.Value).(option.Reader).ReadOption(v)
}

// ReadOption implements option.Reader.
func (d *Distribution[T]) ReadOption(v *option.Value) error {
	const ways = "one of uniform, exponential, lognormal, empirical"
	if v.Kind != option.Object {
		var x T
		if err := any(&x).(option.Reader).ReadOption(v); err != nil {
			return fmt.Errorf("%w, or an object with %s", err, ways)
		}
		*d = always(x)
		return nil
	}
	var of drawn[T]
	r := option.Reading{Separator: "."}
	r.Options(&of, v, "")
	given := 0
	for _, way := range []string{"uniform", "exponential", "lognormal", "empirical"} {
		if v.Get(way) != nil {
			given++
		}
	}
	switch {
	case len(r.Faults) > 0:
		return option.NewError(r.Faults)
	case given != 1:
		return errors.New("exactly " + ways + " is needed")
	}
	d.greatest, d.least, d.most = math.Inf(1), float64(*cmp.Or(of.Least, new(T))), math.Inf(1)
	if of.Most != nil {
		d.most = float64(*of.Most)
	}
	if d.least > d.most {
		return errors.New("option least must not be greater than option most")
	}
	return d.shape(&of)
}

// shape sets the shape of the distribution.
func (d *Distribution[T]) shape(of *drawn[T]) error {
	switch {
	case of.Exponential != nil:
		mean := float64(*of.Exponential)
		if mean == 0 {
			return errors.New("a mean above 0 is needed")
		}
		d.draw = func(chance *rand.Rand) float64 { return mean * chance.ExpFloat64() }
	case of.Lognormal != nil:
		median, sigma := float64(*of.Lognormal.Median), *of.Lognormal.Sigma
		if median == 0 {
			return errors.New("a median above 0 is needed")
		}
		d.draw = func(chance *rand.Rand) float64 { return median * math.Exp(sigma*chance.NormFloat64()) }
	case of.Empirical != nil:
		return d.empirical(of.Empirical)
	case len(of.Uniform) != 2:
		return errors.New("the two bounds are needed, such as [1m, 10m]")
	case of.Uniform[0] > of.Uniform[1]:
		return errors.New("the first bound is more than the second")
	default:
		low, high := float64(of.Uniform[0]), float64(of.Uniform[1])
		d.greatest, d.draw = high, func(chance *rand.Rand) float64 { return low + (high-low)*chance.Float64() }
	}
	return nil
}

// empirical draws one of the values, each as likely as its weight.
func (d *Distribution[T]) empirical(all []weighted[T]) error {
	if len(all) == 0 {
		return errors.New("a list of values is needed, such as [1m, 5m, {value: 2h, weight: 0.1}]")
	}
	slices.SortStableFunc(all, func(a, b weighted[T]) int { return cmp.Compare(*a.Value, *b.Value) })
	sum, sums := 0.0, make([]float64, len(all))
	for i, w := range all {
		sum += *w.Weight
		sums[i] = sum
	}
	if sum == 0 {
		return errors.New("all weights are 0")
	}
	d.greatest, d.draw = float64(*all[len(all)-1].Value), func(chance *rand.Rand) float64 {
		at := chance.Float64() * sum
		return float64(*all[min(sort.Search(len(sums), func(i int) bool { return sums[i] > at }), len(all)-1)].Value)
	}
	return nil
}
