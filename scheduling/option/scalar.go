package option

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/scheduling/resource"
)

// scalar reads a single value and checks the bounds of its option.
func scalar(dst reflect.Value, s *setting, v *Value) error {
	var err error
	switch s.Kind {
	case "bool":
		if v.Kind != Boolean {
			return fmt.Errorf("is %s, not true or false", v)
		}
		dst.SetBool(v.Truth)
	case "integer":
		var n int64
		n, err = s.integer(v)
		dst.SetInt(n)
	case "size":
		var n int64
		n, err = s.size(v)
		dst.SetInt(n)
	case "duration":
		var d time.Duration
		d, err = s.duration(v)
		dst.SetInt(int64(d))
	case "number":
		err = s.number(v)
		dst.SetFloat(v.Number)
	default:
		var text string
		text, err = s.text(v)
		dst.SetString(text)
	}
	return err
}

func (s *setting) integer(v *Value) (int64, error) {
	if v.Kind != Number {
		return 0, fmt.Errorf("is %s, not a number", v)
	}
	whole := v.Number == math.Trunc(v.Number)
	if problem := s.misfit(v.Number, v.written()+" is "); problem != "" && whole {
		return 0, errors.New(problem)
	}
	if !whole || math.Abs(v.Number) > 1<<53 {
		return 0, fmt.Errorf("%s is not a whole number", v.written())
	}
	return int64(v.Number), nil
}

func (s *setting) number(v *Value) error {
	switch {
	case v.Kind != Number:
		return fmt.Errorf("is %s, not a number", v)
	case !finite(v.Number):
		return fmt.Errorf("%v is not a finite number", v.Number)
	}
	if problem := s.misfit(v.Number, v.written()+" is "); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// misfit says which numbers are valid if n is not. The result is empty if n is valid.
func (s *setting) misfit(n float64, begin string) string {
	low, hasLow := bound(s.Min)
	high, hasHigh := bound(s.Max)
	above, hasAbove := bound(s.Above)
	if (!hasLow || n >= low) && (!hasHigh || n <= high) && (!hasAbove || n > above) {
		return ""
	}
	begin += "not a number "
	switch {
	case hasAbove && hasHigh:
		return fmt.Sprintf("%sabove %v and at most %v", begin, above, high)
	case hasAbove:
		return fmt.Sprintf("%sabove %v", begin, above)
	case hasLow && hasHigh:
		return fmt.Sprintf("%sfrom %v to %v", begin, s.Min, s.Max)
	case hasHigh:
		return fmt.Sprintf("%sof at most %v", begin, s.Max)
	}
	return fmt.Sprintf("%sof at least %v", begin, s.Min)
}

// bound parses a bound that is a number.
func bound(tag string) (n float64, given bool) {
	return boundOf(tag, 0, func(tag string) (float64, error) { return strconv.ParseFloat(tag, 64) }), tag != ""
}

// boundOf parses a bound. It returns the parameter missing if the tag is empty.
func boundOf[T any](tag string, missing T, parse func(string) (T, error)) T {
	if tag == "" {
		return missing
	}
	n, err := parse(tag)
	if err != nil {
		panic(fmt.Sprintf("bound %q: %v", tag, err))
	}
	return n
}

func (s *setting) size(v *Value) (int64, error) {
	low, high := boundOf(s.Min, 0, resource.ParseSize), boundOf(s.Max, math.MaxInt64, resource.ParseSize)
	var n int64
	var err error
	switch {
	case v.Kind == Text:
		if n, err = resource.ParseSizeWithin(v.Text, low, high); err != nil {
			err = fmt.Errorf("%q is %w", Clip(v.Text), err)
		}
		return n, err
	case v.Kind != Number:
		return 0, fmt.Errorf("is %s, not a size: write bytes, or a number with a unit, such as 512MiB", v)
	case v.IsWhole:
		n, err = v.Whole, resource.CheckSize(v.Whole, low, high)
	case v.Number < float64(low):
		err = resource.CheckSize(math.MinInt64, low, high)
	case v.Number > float64(high):
		err = resource.CheckSize(math.MaxInt64, low, high)
	default:
		err = errors.New("not a whole number of bytes: give it a unit, such as 512MiB")
	}
	if err != nil {
		err = fmt.Errorf("%s is %w", v.written(), err)
	}
	return n, err
}

func (s *setting) duration(v *Value) (time.Duration, error) {
	if v.Kind != Text {
		return 0, fmt.Errorf("is %s, not a time: write it with a unit, such as 30s or 10m", v)
	}
	d, err := time.ParseDuration(strings.TrimSpace(v.Text))
	low, high := boundOf(s.Min, 0, time.ParseDuration), boundOf(s.Max, math.MaxInt64, time.ParseDuration)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time: write it with a unit, such as 30s or 10m", Clip(v.Text))
	case d < low && low == 0:
		return 0, fmt.Errorf("%s is negative", Clip(v.Text))
	case d < low:
		return 0, fmt.Errorf("%s is too short: the minimum is %s", Clip(v.Text), FormatDuration(low))
	case s.Above != "" && d <= boundOf(s.Above, 0, time.ParseDuration):
		return 0, fmt.Errorf("%s is too short: it must be more than %s", Clip(v.Text), s.Above)
	case d > high:
		return 0, fmt.Errorf("%s is too long: the limit is %s", Clip(v.Text), FormatDuration(high))
	}
	return d, nil
}

// text reads a text, or one of a fixed set. The bounds of the option limit the bytes of the text,
// unless the option is a list or an object by name, whose length they limit.
func (s *setting) text(v *Value) (string, error) {
	if v.Kind != Text {
		return "", fmt.Errorf("is %s, not text", v)
	}
	if s.Values != nil {
		if name := Canonical(v.Text); slices.Contains(s.Values, name) {
			return name, nil
		}
		return "", fmt.Errorf("%q is not one of %s", Clip(v.Text), strings.Join(s.Values, ", "))
	}
	if problem := s.beyond(v); problem != "" {
		return "", errors.New(problem)
	}
	return v.Text, nil
}

// beyond describes what is wrong with a text that is bounded in bytes, or with the length of a
// list or an object that a Reader reads. The result is empty if nothing is wrong.
func (s *setting) beyond(v *Value) string {
	high, bounded := bound(s.Max)
	switch {
	case !bounded:
	case v.Kind == List:
		return s.count(len(v.Items))
	case v.Kind == Object:
		return s.count(len(v.Fields))
	case v.Kind != Text || s.Unit != "bytes":
	case float64(len(v.Text)) > high:
		return fmt.Sprintf("it has %d bytes, the limit is %s", len(v.Text), s.Max)
	case strings.ContainsRune(v.Text, 0):
		return "it contains a NUL byte"
	}
	return ""
}

// count describes what is wrong with the length n of a list or an object. The result is empty if
// nothing is wrong.
func (s *setting) count(n int) string {
	switch {
	case s.misfit(float64(n), "") == "":
		return ""
	case s.Min == "":
		return fmt.Sprintf("it has %d %s, the limit is %s", n, s.Unit, s.Max)
	}
	return fmt.Sprintf("it has %d %s: from %s to %s are allowed", n, s.Unit, s.Min, s.Max)
}

// Complete sets each option that is not set and has a default, in the struct *of and in its groups
// that are set. Groups are copied first, so that the originals do not change.
func Complete(of any) {
	dst := reflect.ValueOf(of).Elem()
	for _, s := range tableOf(dst.Type()).own {
		f := dst.FieldByIndex(s.index)
		switch {
		case s.Kind == kindGroup && !f.IsNil():
			f.Set(completed(f))
		case s.Kind == kindGroups && !f.IsNil():
			all := reflect.MakeSlice(f.Type(), 0, f.Len())
			for i := range f.Len() {
				all = reflect.Append(all, completed(f.Index(i)))
			}
			f.Set(all)
		case s.Default != "" && f.IsNil():
			f.Set(s.missing())
		}
	}
}

// completed returns a copy of a group with its defaults.
func completed(group reflect.Value) reflect.Value {
	c := reflect.New(group.Type().Elem())
	c.Elem().Set(group.Elem())
	Complete(c.Interface())
	return c
}

// missing returns the default of an option.
func (s *setting) missing() reflect.Value {
	r := Reading{}
	v := TextOf(s.Default)
	switch s.Kind {
	case "bool":
		v = &Value{Kind: Boolean, Truth: s.Default == "true"}
	case "integer", "number":
		n, _ := bound(s.Default)
		v = Float(n, Position{})
	case "list":
		v = &Value{Kind: List}
		for _, text := range list(s.Default) {
			v.Items = append(v.Items, TextOf(text))
		}
	}
	dst := reflect.New(s.typ).Elem()
	if r.value(dst, s, v, s.name); r.Faults != nil {
		panic(fmt.Sprintf("default of option %v", NewError(r.Faults)))
	}
	return dst
}

// Default returns the default of the option of a struct that field points to.
func Default[T any](of any, field **T) T {
	s := settingAt(of, field)
	return *s.missing().Interface().(*T)
}

// Check returns the faults of single options, such as values out of bounds, for options that were
// set by code and not read. The parameter `of` is a struct, or a pointer to one. Paths have
// slashes.
func Check(of any) []Fault {
	r := Reading{Separator: "/"}
	r.check(reflect.Indirect(reflect.ValueOf(of)), "")
	return r.Faults
}

func (r *Reading) check(v reflect.Value, path string) {
	for _, s := range tableOf(v.Type()).settings {
		f := v.FieldByIndex(s.index)
		switch {
		case s.elsewhere != "" || f.IsNil():
		case s.Kind == kindGroup:
			r.check(f.Elem(), r.join(path, s.name))
		case f.Kind() == reflect.Pointer && (s.Min != "" || s.Max != "" || s.Above != ""):
			if err := scalar(reflect.New(s.typ.Elem()).Elem(), &s, Of(written(&s, f))); err != nil {
				r.Add(r.join(path, s.name), Position{}, "%v", err)
			}
		}
	}
}
