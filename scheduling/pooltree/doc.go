// Package pooltree holds the pools of a tree and their settings. It validates
// edits, and decides whether an operation may start or run.
//
// A Tree is an immutable value: an edit checks everything and returns a new Tree.
// The effective settings of a pool are its own options, completed with inherited
// ones and the defaults of its tree. The package is pure.
package pooltree
