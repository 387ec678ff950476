// Package preemption says who has less than its fair share, and chooses the
// allocations that have to give their resources back.
//
// OperationStatus and PoolStatus are the status of F.11. Overcommit is for a node
// that has less than its allocations hold (F.12.3, step 5). The package is pure.
package preemption
