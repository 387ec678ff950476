// Package explain says why something is as it is: in codes and numbers, and in texts.
//
// Who schedules notes what only it knows, as plain values that share nothing with it: an
// Asked for each operation in question, a Survey of the nodes and of those that compete for
// them, and a Search for those that would have to leave. A Case follows from these, beside
// the work of who schedules. All texts are here.
package explain
