// Package explain says why something is as it is: in codes and numbers, and in texts.
//
// The scheduler notes what only it knows, as plain values that share nothing with it: an Asked
// for each operation in question, a Survey of the nodes and of the operations that compete for
// them, and a Search for the jobs that would have to leave. A Case draws the conclusions from
// these, outside the scheduler. All texts are here.
package explain
