// Package option reads settings that come by name into structs, and writes them
// back.
//
// A struct describes its settings with tags:
//
//	type Pool struct {
//		Weight *float64 `option:"weight" help:"part among siblings"`
//		Mode   *string  `option:"mode" values:"fair_share,fifo"`
//		Flow   *Flow    `option:"flow" alias:"resource_flow"`
//	}
//
// A nil field is a setting that was not given. Pointers to bool, int64, float64,
// string and time.Duration hold values, a []string holds a list, a pointer to a
// struct holds a group of settings, and a type that implements Reader and Writer
// reads and writes itself. The settings of an embedded struct are settings of the
// struct that it is in. Names, aliases and the values of a fixed set are taken
// with '-' for '_'.
//
// Documents are what encoding/json makes of an object: nil, bool, float64, string,
// []any and map[string]any. A null takes a setting away. Faults are collected, each
// with its path, so that all of them can be told at once. The package is pure.
package option
