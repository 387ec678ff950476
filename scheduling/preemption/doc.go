// Package preemption decides which operations and pools are below their fair share, and which
// allocations are preempted.
//
// OperationStatus and PoolStatus return the status of F.11, and a Clock derives starvation from
// that status. A Stage is a part of a heartbeat in which starving operations preempt others
// (F.12.2).
//
// Groups divide the allocations of an operation into the three groups of F.12.1. Each allocation is
// a Member, embedded in the caller's type, and has a Level. Owner.Blocks and Rate exempt some
// allocations. Among the others, Victims chooses the ones that make room on a node. Repair is for
// operations and pools that use more than they may (F.12.3, step 5). Overcommit is for a node that
// has less than its allocations hold (step 6).
//
// The package is pure, and allocates no memory in steady state.
package preemption
