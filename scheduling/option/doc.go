// Package option defines options once, as tagged fields of structs. From the tags, options are
// read, checked, completed with defaults, written and documented.
//
// A struct describes its options with tags:
//
//	type Pool struct {
//		Weight *float64 `option:"weight" min:"0" max:"1e9" default:"1" help:"part among siblings"`
//		Mode   *string  `option:"mode" values:"fair_share,fifo"`
//		Flow   *Flow    `option:"flow" alias:"resource_flow"`
//	}
//
// A nil field is an option that is not set. Pointers to bool, int64, float64, string and
// time.Duration hold values. A []string holds a list. A pointer to a struct holds a group of
// options; a slice or a map of such pointers holds several groups. A type that implements
// Reader reads itself. The options of an embedded struct are options of the outer struct.
// In names, aliases and the values of a fixed set, '-' is equivalent to '_'.
//
//	option    the name, and alias others, with commas between
//	kind      size for a number of bytes; for a Reader, the kind of its values
//	values    the fixed set of values of a text
//	min, max  bounds of a number, a size, a time, the bytes of a text, the length of a list
//	above     a bound that a number or a time has to exceed
//	unit      what a number counts
//	default   the value of an option that is not set
//	required  what to do when it is missing
//	inherit   how it is inherited
//	short     the option that a text in place of a group sets; * for a list: a text is a list of one
//	null      empty: null is a group without options
//	help      what it does; rule is the section that defines it
//	elsewhere where the option belongs instead, for a field of type Elsewhere
//
// A struct of effective settings, which Holds fills, has the same names in its tags `option`,
// and values in place of pointers.
//
// Values come from a document, with their places, or from encoding/json. A null removes an
// option. Faults are collected, each with its path and its place, so that all of them can be
// reported at once. The package is pure.
package option
