// Package document parses text that people write: one object in YAML or JSON. It records the
// line and column of each value. Limits keep hostile text from using up memory or time.
//
// Package option reads the values into structs. The same values can also come from the right
// side of path=value, and from messages of the API.
//
// The package is pure: equal input gives equal output.
package document
