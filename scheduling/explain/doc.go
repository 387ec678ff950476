// Package explain says, in codes, numbers and texts, why jobs wait, why they may be preempted, and
// why shares are what they are.
//
// The scheduler notes what only it knows, as plain values that share no memory with it: an Asked
// for each operation in question, a Survey of the nodes and of the operations that compete for
// them, and a Search for the jobs that would have to leave. A Case draws the conclusions from
// these, outside the scheduler. A Survey by itself shows which jobs can never start: for that,
// any replica makes a Survey of the nodes in its state. All texts are in this package.
package explain
