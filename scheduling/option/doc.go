// Package option is the one table of options: structs whose fields say all that is known of
// an option, from which it is read, checked, completed, written and documented.
//
// A struct describes its options with tags:
//
//	type Pool struct {
//		Weight *float64 `option:"weight" min:"0" max:"1e9" default:"1" help:"part among siblings"`
//		Mode   *string  `option:"mode" values:"fair_share,fifo"`
//		Flow   *Flow    `option:"flow" alias:"resource_flow"`
//	}
//
// A nil field is an option that was not set. Pointers to bool, int64, float64, string and
// time.Duration hold values, a []string holds a list, a pointer to a struct holds a group of
// options, a slice or a map of such pointers several of these, and a type that implements
// Reader reads itself. The options of an embedded struct are options of the struct that it is
// in. Names, aliases and the values of a fixed set are taken with '-' for '_'.
//
//	option    the name, and alias others, with commas between
//	kind      size for bytes; the name of what reads itself
//	values    the fixed set that a text is out of
//	min, max  bounds of a number, a size, a time, the bytes of a text, how many a list has
//	above     a bound that a number or a time has to exceed
//	unit      what a number counts
//	default   what holds when nothing is set
//	required  what to do when it is missing
//	inherit   how it is handed down
//	short     the option of a group that a text alone is; * for a list: one text is a list of one
//	null      empty: null is a group without options
//	help      what it does, and rule the section that says it exactly
//	elsewhere whose option it is instead, of a field of type Elsewhere
//
// A struct of what holds, which Holds fills, has the same names in its tags `option`, and values
// in place of pointers.
//
// Values come from a document, with their places, or as encoding/json makes them. A null
// takes an option away. Faults are collected, each with its path and its place, so that all
// of them can be told at once. The package is pure.
package option
