// Package allocation chooses whose jobs start on a node.
//
// The choice goes down the tree from the root (F.13). Each pool chooses its least satisfied child:
// the one that has the least of its fair share. A pool's satisfaction is its own or, if
// Order.ByOperations is set, that of its first waiting operation. An operation chooses its first
// task, by name, that has pending jobs that fit. If the jobs of a task need different memory, the
// jobs that need the most come first. Each start counts as usage at once, up to the root, so the
// next choice takes it into account. An element is left out until the node is done if its jobs do
// not fit, if its filter does not match the tags of the node, or if its limits or those of a pool
// above leave too little.
//
// Operations that have less than guarantees promise them come before all others (F.12.2). Before a
// job starts, Node.Admit may refuse the node to an operation that waits for nodes that fit its jobs
// better (F.14), or whose job would have to leave again. Each refusal of a node is counted, by
// cause, at the element that was left out.
//
// The order is kept from one node to the next: each pool has a heap of the children that have
// pending jobs. So a start costs the logarithm of the number of siblings at each level, and a full
// node costs next to nothing, because each pool knows what the least demanding of its jobs needs.
//
// The package is pure. Equal elements give equal choices, whatever the history of the heaps: the
// order of children is total.
package allocation
