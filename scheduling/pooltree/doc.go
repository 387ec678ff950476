// Package pooltree holds the pools of a tree and their settings, says which
// edits of them are allowed, and whether an operation may start or run.
//
// A Tree is a value: an edit checks everything, returns a new Tree and leaves
// the old one as it was. What a pool does not set takes the default of its tree;
// the effective settings of a pool are the ones that hold. The package is pure.
package pooltree
