// Package allocation chooses whose jobs start on a node.
//
// The choice goes down the tree from the root (F.13): at each pool to the child
// that is least satisfied, that is, has the least of its fair share, where a pool is
// as satisfied as the least of its waiting operations (F.10); at an operation to its
// first task, by name, that has jobs pending and fits; of a task whose jobs need different
// memory, those that need the most come first. Each start counts as usage at
// once, up to the root, so the next choice sees it. Who does not fit the node, its
// tags, or the limits of the operation and of all pools above is left out until the
// node is done.
//
// Operations below what guarantees promise them come before all others (F.12.2). Some are
// asked whether a node is right for them, before a job starts: those that wait for nodes
// that fit them better (F.14), and those that would have to leave again. Each look at a
// node that came to nothing is noted, by cause, at whom it was that was left out.
//
// The order is kept from one node to the next: each pool has a heap of those
// children that have pending jobs. So a start costs the logarithm of the number
// of siblings at each level, and a full node costs next to nothing, for each pool
// knows what the least demanding of its jobs needs.
//
// The package is pure. Equal elements give equal choices, whatever happened to
// the heaps before: the order of children is total.
package allocation
