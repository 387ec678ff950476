// Package weir is the root of a fair-share scheduler for shared compute
// clusters. It holds no code: the programs are under cmd, DESIGN.md maps the
// rest, and the tests here hold the tree to that map and its import rules.
package weir
