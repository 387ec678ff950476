package simulate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"weir/scheduling/option"
	"weir/scheduling/pooltree"
	"weir/scheduling/resource"
)

// refuse refuses a simulation, if there are faults.
func refuse(faults []option.Fault) error { return option.Refuse("simulation", faults) }

// place is where in a document a value is: names on the way to it. Items of lists are
// names such as [2], which are for people alone.
type place []string

func (p place) to(name string) place { return append(slices.Clone(p), name) }

func (p place) item(i int) place { return p.to(fmt.Sprintf("[%d]", i)) }

// String returns the path as faults show it.
func (p place) String() string { return strings.ReplaceAll(strings.Join(p, "."), ".[", "[") }

// reader collects what is wrong with a document while it is read.
type reader struct {
	// lines finds the line and column of a place.
	lines  func(names ...string) (line, column int)
	faults []option.Fault
}

func (r *reader) fault(at place, format string, args ...any) {
	var names []string
	for _, name := range at {
		if strings.HasPrefix(name, "[") {
			break
		}
		names = append(names, name)
	}
	line, column := r.lines(names...)
	r.faults = append(r.faults, option.Fault{Path: at.String(), Position: option.Position{Line: line, Column: column}, Problem: fmt.Sprintf(format, args...)})
}

// err returns all faults in the order of the text.
func (r *reader) err() error {
	return refuse(r.faults)
}

// take adds the faults of an error that another reader has made.
func (r *reader) take(at place, err error) {
	var refused *option.Error
	switch {
	case err == nil:
	case errors.As(err, &refused) && refused.What != "":
		for _, f := range refused.Faults {
			if f.Line == 0 {
				f.Line, f.Column = r.lines(strings.Split(f.Path, ".")...)
			}
			r.faults = append(r.faults, f)
		}
	case refused != nil:
		for _, f := range refused.Faults {
			r.fault(append(slices.Clone(at), strings.Split(f.Path, "/")...), "%s", f.Problem)
		}
	default:
		r.fault(at, "%v", err)
	}
}

// fields is an object whose names are taken out one by one; what is left in the end is
// not known.
type fields struct {
	*reader
	at     place
	values map[string]any
	known  []string
}

// object reads an object; nothing is an empty one. ok is false when it is none.
func (r *reader) object(at place, value any) (f *fields, ok bool) {
	f = &fields{reader: r, at: at, values: map[string]any{}}
	if value == nil {
		return f, true
	}
	object, ok := value.(map[string]any)
	if !ok {
		r.fault(at, "is %s: an object is needed", described(value))
		return f, false
	}
	for name, value := range object {
		f.values[strings.ReplaceAll(name, "-", "_")] = value
	}
	return f, true
}

// named reads an object whose names are those of somebody else.
func (r *reader) named(at place, value any) map[string]any {
	object, ok := value.(map[string]any)
	if !ok && value != nil {
		r.fault(at, "is %s: an object is needed", described(value))
	}
	return object
}

// get takes a value; given is false when it is not there or null.
func (f *fields) get(name string) (value any, given bool) {
	f.known = append(f.known, name)
	value = f.values[name]
	delete(f.values, name)
	return value, value != nil
}

// end tells what nobody has taken.
func (f *fields) end() {
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if closest := option.Closest(name, f.known); closest != "" {
			f.fault(f.at.to(name), "unknown; did you mean %s?", closest)
			continue
		}
		f.fault(f.at.to(name), "unknown: use one of %s", strings.Join(slices.Sorted(slices.Values(f.known)), ", "))
	}
}

// duration reads a time from 0 on.
func (f *fields) duration(name string, missing time.Duration) time.Duration {
	value, given := f.get(name)
	if !given {
		return missing
	}
	d, err := durationOf(value)
	if err != nil {
		f.fault(f.at.to(name), "%v", err)
		return missing
	}
	return d
}

// count reads a whole number.
func (f *fields) count(name string, missing int64) int64 {
	value, given := f.get(name)
	if !given {
		return missing
	}
	n, ok := value.(float64)
	if !ok || n < 0 || n != math.Trunc(n) || n > 1e15 {
		f.fault(f.at.to(name), "is %s: a whole number from 0 on is needed", described(value))
		return missing
	}
	return int64(n)
}

func (f *fields) text(name, missing string) string {
	value, given := f.get(name)
	if !given {
		return missing
	}
	text, ok := value.(string)
	if !ok {
		f.fault(f.at.to(name), "is %s: text is needed", described(value))
		return missing
	}
	return text
}

func (f *fields) truth(name string) bool {
	value, given := f.get(name)
	if !given {
		return false
	}
	truth, ok := value.(bool)
	if !ok {
		f.fault(f.at.to(name), "is %s: true or false is needed", described(value))
	}
	return truth
}

// items reads a list.
func (f *fields) items(name string) []any {
	value, given := f.get(name)
	if !given {
		return nil
	}
	items, ok := value.([]any)
	if !ok {
		f.fault(f.at.to(name), "is %s: a list is needed", described(value))
	}
	return items
}

// amounts reads resources from the fields that name some.
func (f *fields) amounts(names ...resource.Kind) (amounts resource.Amounts, named [resource.Count]bool) {
	object := make(map[string]any)
	for _, k := range names {
		if value, given := f.get(k.String()); given {
			object[k.String()] = value
		}
	}
	var read pooltree.Resources
	if err := read.ReadOption(option.Of(object)); err != nil {
		f.fault(f.at, "%v", err)
	}
	return read.Amounts, read.Named
}

// durationOf reads a time such as 90s, 12h or 7d12h.
func durationOf(value any) (time.Duration, error) {
	fault := fmt.Errorf("is %s: a time with a unit is needed, such as 30s, 12h or 7d", described(value))
	text, ok := value.(string)
	if !ok {
		return 0, fault
	}
	text = strings.TrimSpace(text)
	var days time.Duration
	if before, after, ok := strings.Cut(text, "d"); ok {
		whole, err := time.ParseDuration(before + "h")
		if err != nil || whole > maxTime/24 {
			return 0, fault
		}
		if days, text = 24*whole, after; text == "" {
			text = "0s"
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || days < 0 || d > maxTime || days+d > maxTime {
		return 0, fault
	}
	return days + d, nil
}

// maxTime is the longest time that can be written.
const maxTime = 100 * 365 * 24 * time.Hour

// described says what a value of a document is.
func described(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case bool:
		return fmt.Sprint(v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		return fmt.Sprintf("the text %q", v)
	case []any:
		return "a list"
	}
	return "an object"
}
