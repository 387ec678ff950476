// Package preemption says who has less than its fair share, and chooses the
// allocations that have to give their resources back.
//
// OperationStatus and PoolStatus are the status of F.11, and a Clock makes starvation of
// it. A Stage is a part of a heartbeat in which those that starve preempt others (F.12.2).
//
// Groups keep the allocations of an operation in the three groups of F.12.1: each is a
// Member, to be embedded in what holds it, and has a Level. Owner.Blocks and Rate say
// which of them have to be spared all the same, Victims chooses among the others those
// that make room on a node. Repair is for operations and pools that use more than they
// may (F.12.3, step 5), Overcommit for a node that has less than its allocations hold
// (step 6).
//
// The package is pure, and allocates no memory in steady state.
package preemption
