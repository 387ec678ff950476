package spec

import "fmt"

// item is one value of a list that is an option.
type item struct {
	c     *checker
	path  string
	value *value
}

// items returns the values of a list that may have so many.
func (o options) items(name string, most int) []item {
	v := o.get(name, list)
	if v == nil {
		return nil
	}
	if len(v.items) > most {
		o.fault(name, "it has %d: %d is the most", len(v.items), most)
		return nil
	}
	all := make([]item, len(v.items))
	for i, value := range v.items {
		all[i] = item{c: o.c, path: fmt.Sprintf("%s[%d]", join(o.path, name), i), value: value}
	}
	return all
}

func (i item) fault(format string, args ...any) { i.c.fault(i.path, i.value.at, format, args...) }

// fields returns the options of an item that is an object with these.
func (i item) fields(known ...string) (options, bool) {
	if i.value.kind != object {
		i.fault("it is %s: an object is needed, such as {%s: …}", i.value.kind, known[0])
		return options{}, false
	}
	return i.c.options(i.path, i.value, known), true
}
