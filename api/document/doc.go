// Package document reads the text that people write: one object in YAML or JSON, with the
// place of each value, within limits that hostile text cannot use up.
//
// What stands in it is for package option to read into structs. The same values come from
// the right side of path=value, and from messages of the API.
//
// The package is pure: equal input gives equal output.
package document
