package spec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"weir/scheduling/option"
	"weir/scheduling/resource"
)

// checker collects the faults of a document.
type checker struct {
	faults []Fault
	// together: the operation's jobs are of use only all at once.
	together bool
}

func (c *checker) fault(path string, at position, format string, args ...any) {
	c.faults = append(c.faults, newFault(path, at, format, args...))
}

// options are the fields of an object by their canonical names.
type options struct {
	c    *checker
	path string
	at   position
	set  map[string]*value
}

// options reads an object whose fields are options: known ones, or other names for
// them. Unknown ones are faults; one that is null counts as not set.
func (c *checker) options(path string, v *value, known []string, aliases ...string) options {
	o := options{c: c, path: path, at: v.at, set: make(map[string]*value, len(v.fields))}
	for _, f := range v.fields {
		name := canonical(f.name)
		switch {
		case !slices.Contains(known, name) && !slices.Contains(aliases, name):
			message := "unknown field"
			if near := closest(name, known); near != "" {
				message += fmt.Sprintf("; did you mean %q?", near)
			} else {
				message += "; there are " + strings.Join(known, ", ")
			}
			c.fault(join(path, name), f.at, "%s", message)
		case o.set[name] != nil:
			c.fault(join(path, name), f.at, "it is there twice, first in line %d, written with - and with _: keep one", o.set[name].at.line)
		default:
			o.set[name] = f.value
		}
	}
	for name, v := range o.set {
		if v.kind == null {
			delete(o.set, name)
		}
	}
	return o
}

// canonical returns the name of an option: - and _ are the same.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// fault adds a fault of an option, or of the object when the option is missing.
func (o options) fault(name, format string, args ...any) {
	at := o.at
	if v := o.set[name]; v != nil {
		at = v.at
	}
	o.c.fault(join(o.path, name), at, format, args...)
}

// get returns an option if it is set, of one of the wanted kinds.
func (o options) get(name string, want ...kind) *value {
	v := o.set[name]
	if v == nil {
		return nil
	}
	if slices.Contains(want, v.kind) {
		return v
	}
	o.fault(name, "it is %s: %s is needed", v.kind, want[0])
	return nil
}

func (o options) text(name string, maxBytes int) string {
	v := o.get(name, text)
	switch {
	case v == nil:
		return ""
	case len(v.text) > maxBytes:
		o.fault(name, "it has %d bytes: %d is the most", len(v.text), maxBytes)
		return ""
	case strings.ContainsRune(v.text, 0):
		o.fault(name, "it has a zero byte")
		return ""
	}
	return v.text
}

func (o options) truth(name string) bool {
	v := o.get(name, boolean)
	return v != nil && v.truth
}

// integer returns an option from low to high, or missing.
func (o options) integer(name string, missing, low, high int64) int64 {
	v := o.get(name, number)
	switch {
	case v == nil:
		return missing
	case !v.isWhole && v.number > float64(low) && v.number < float64(high):
		o.fault(name, "%v is not a whole number", v.number)
	case v.number < float64(low):
		o.fault(name, "%v is too small: from %d to %d is possible", v.number, low, high)
	case v.number > float64(high) || !v.isWhole:
		o.fault(name, "%v is too large: from %d to %d is possible", v.number, low, high)
	default:
		return v.whole
	}
	return missing
}

// duration returns a time limit, nil when it is not set.
func (o options) duration(name string) *durationpb.Duration {
	return o.durationWithin(name, MinTimeLimit, MaxTimeLimit)
}

// durationWithin returns a time from low to high, nil when it is not set.
func (o options) durationWithin(name string, low, high time.Duration) *durationpb.Duration {
	if v := o.set[name]; v != nil && v.kind == number {
		o.fault(name, "%v has no unit: write %q or %q", v.number, fmt.Sprint(v.number, "s"), fmt.Sprint(v.number, "m"))
		return nil
	}
	v := o.get(name, text)
	if v == nil {
		return nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(v.text))
	switch {
	case err != nil:
		o.fault(name, "%q is not a time: write a number with a unit of ms, s, m or h, such as 90s or 1h30m", clip(v.text))
	case d < low:
		o.fault(name, "%s is too short: %s is the least", clip(v.text), option.FormatDuration(low))
	case d > high && high == MaxTimeLimit:
		o.fault(name, "%s is too long: %s (366 days) is the most", clip(v.text), option.FormatDuration(high))
	case d > high:
		o.fault(name, "%s is too long: %s is the most", clip(v.text), option.FormatDuration(high))
	default:
		return durationpb.New(d)
	}
	return nil
}

// bytes returns a size from low to high, or missing.
func (o options) bytes(name string, missing, low, high int64) int64 {
	v := o.set[name]
	var n int64
	var err error
	switch {
	case v == nil:
		return missing
	case v.kind == text:
		n, err = resource.ParseSizeWithin(v.text, low, high)
	case v.kind != number:
		o.fault(name, "it is %s: bytes are needed, or a number with a unit, such as 512MiB", v.kind)
		return missing
	case v.isWhole:
		n, err = v.whole, resource.CheckSize(v.whole, low, high)
	case v.number < float64(low):
		err = resource.CheckSize(math.MinInt64, low, high)
	case v.number > float64(high):
		err = resource.CheckSize(math.MaxInt64, low, high)
	default:
		err = errors.New("not a whole number of bytes: give it a unit, such as 512MiB")
	}
	if err != nil {
		o.fault(name, "%s is %v", v.written(), err)
		return missing
	}
	return n
}

// written returns a text or a number as it was written, nearly.
func (v *value) written() string {
	if v.kind == text {
		return fmt.Sprintf("%q", clip(v.text))
	}
	return fmt.Sprint(v.number)
}
