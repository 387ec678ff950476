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
//	option    the name
//	alias     other names, separated by commas
//	kind      size for a number of bytes; for a Reader, the kind of its values
//	values    the fixed set of values of a text
//	min, max  bounds of a number, a size, a time, the bytes of a text, the length of a list
//	above     a bound that a number or a time has to exceed
//	unit      what a number counts
//	default   the value of an option that is not set
//	required  the text of the fault if the option is missing: what to do
//	inherit   how the option is inherited
//	short     for a group, the option that is set by a text in place of the group;
//	          for a list, *: a text in place of the list is a list of one
//	null      with the value empty, null is a group without options
//	help      what the option does
//	rule      the section that defines the option
//	elsewhere where the option belongs instead, for a field of type Elsewhere
//
// A struct of effective settings, which Holds fills, names the same options in its tags `option`.
// Its fields are values, not pointers.
//
// Values come from a document, with their positions in its text, or from encoding/json. A null
// removes an option. Faults are collected, each with its path and its position, so that all of
// them can be reported at once. The package is pure.
package option
