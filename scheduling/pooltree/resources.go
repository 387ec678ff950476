package pooltree

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// Resources are amounts of the resources that a setting names. A resource that it
// does not name is not 0, but has the default of the setting (F.1.1).
type Resources struct {
	// Amounts are 0 for resources that are not named.
	Amounts resource.Amounts
	// Named says which resources are named.
	Named [resource.Count]bool
}

// Or returns the amounts of the resources that r names. For the rest it returns the amounts in
// `other`. A nil receiver names no resource.
func (r *Resources) Or(other resource.Amounts) resource.Amounts {
	if r == nil {
		return other
	}
	for k := range r.Named {
		if r.Named[k] {
			other = other.With(resource.Kind(k), r.Amounts.Of(resource.Kind(k)))
		}
	}
	return other
}

// lesser returns the lesser amount of each resource that both r and `other` name. For a resource that
// only one of the two names, it returns the amount there. A nil *Resources names no resource.
func (r *Resources) lesser(other *Resources) *Resources {
	if r == nil || other == nil || r == other {
		return cmp.Or(r, other)
	}
	both := Resources{Amounts: r.Or(resource.Infinite).Min(other.Or(resource.Infinite))}
	for k := range both.Named {
		if both.Named[k] = r.Named[k] || other.Named[k]; !both.Named[k] {
			both.Amounts = both.Amounts.With(resource.Kind(k), 0)
		}
	}
	return &both
}

// Has reports whether the setting names the resource.
func (r *Resources) Has(k resource.Kind) bool { return r != nil && r.Named[k] }

// IsZero reports whether no resource has an amount above 0.
func (r *Resources) IsZero() bool { return r == nil || r.Amounts == resource.Amounts{} }

// ReadOption implements option.Reader. It reads an object with amounts by resource.
// Memory is a number of bytes, or text with a unit.
func (r *Resources) ReadOption(value *option.Value) error {
	object, ok := value.Plain().(map[string]any)
	if !ok {
		return errors.New("must be an object with an amount for each resource, such as {cpu: 10, memory: 4GiB}")
	}
	numbers := make(map[string]float64, len(object))
	for _, given := range slices.Sorted(maps.Keys(object)) {
		name := option.Canonical(given)
		if _, twice := numbers[name]; twice {
			return fmt.Errorf("resource %s is set twice, once with - and once with _", name)
		}
		switch amount := object[given].(type) {
		case nil:
			continue
		case float64:
			if name == resource.Memory.String() && amount != math.Trunc(amount) {
				return fmt.Errorf("resource %s: %v is not a whole number of bytes: use a whole number, or a number with a unit, such as 4GiB", name, amount)
			}
			numbers[name] = amount
		case string:
			if name != resource.Memory.String() {
				return fmt.Errorf("resource %s: %q is not a number", name, amount)
			}
			bytes, err := resource.ParseSizeWithin(amount, 0, math.MaxInt64)
			if err != nil {
				return fmt.Errorf("resource %s: %q is %w", name, amount, err)
			}
			numbers[name] = float64(bytes)
		default:
			return fmt.Errorf("resource %s: %v is not a number", name, amount)
		}
	}
	amounts, err := resource.FromMap(numbers)
	if err != nil {
		return err
	}
	*r = Resources{Amounts: amounts}
	for name := range numbers {
		k, err := resource.ParseKind(name)
		if err != nil {
			return err
		}
		r.Named[k] = true
	}
	return nil
}

// WriteOption implements option.Writer.
func (r *Resources) WriteOption() any {
	object := make(map[string]any)
	for k := range r.Named {
		kind := resource.Kind(k)
		switch {
		case !r.Named[k]:
		case kind == resource.CPU:
			object[kind.String()] = r.Amounts.CPU.Cores()
		default:
			object[kind.String()] = float64(r.Amounts.Of(kind))
		}
	}
	return object
}

// ReadOption implements option.Reader.
func (f *Filter) ReadOption(value *option.Value) error {
	if value.Kind != option.Text {
		return errors.New("must be a text: a node filter, such as gpu & !old")
	}
	read, err := ParseFilter(value.Text)
	if err != nil {
		return err
	}
	*f = read
	return nil
}

// WriteOption implements option.Writer.
func (f *Filter) WriteOption() any { return f.text }
