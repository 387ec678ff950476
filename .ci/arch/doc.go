// Package arch holds the tree to DESIGN.md: its map, its import rules, and the sizes of its parts.
// It is tests alone, and no room of the product.
package arch
