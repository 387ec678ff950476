// Package state is the replicated state machine: the replicated state, and the effect of each
// command of the log.
//
// It is pure: no clock, goroutine, lock, log or I/O, and nothing depends on the
// order of a map. Times, ids and random numbers come with the commands, so equal logs
// give equal states on every replica.
//
// # Commands
//
// Apply carries out a command as a whole, or refuses it with a code and a message for people. A
// refused command changes nothing but LastIndex. Commands that carry grants or jobs return a result
// for each grant or job. A command was proposed on an older state, so everything in it is checked
// again here: leaders are fenced by their term, controllers by the epoch of their assignment.
//
// State.Verify checks the invariants that hold after every command. The most important one: each
// cookie of a task is exactly one of pending, running, completed and given up, so a job that ends
// is counted exactly once.
//
// # Work
//
// The work of a task is kept beside the record of its operation: its cookies, the input that each
// cookie has to read and has read, and the statistics of its jobs. Pending cookies are grouped by
// memory reserve. Most of them get the reserve that the task's controller has learned
// (UpdateReserves). A cookie whose job was aborted for exceeding its reserve gets its own reserve.
// A replica computes no quantile: it keeps samples until a controller reports that they are in its
// digests.
//
// At any moment every byte of a map operation's input is assigned to one pending or running cookie,
// has been read by a completed cookie, or is skipped. When an interrupted job leaves input unread,
// or the input of a failed job is split, the same command assigns the remainder or the parts to new
// cookies.
//
// The jobs of a gang have ranks, in the order of their grants. When a job ends without completing
// its rank, a new incarnation begins: all other jobs have to stop, completed ranks are run again,
// and nothing is granted until all jobs have ended.
//
// # Sharing
//
// Records that readers see belong to the state: they must not be changed, and an operation's record
// must not be read after the next Apply. Allocations, nodes, pool trees, events and finished jobs
// are never changed once made, but replaced. Operations are copied before the first change after a
// Freeze, so a Frozen does not change when the state does.
package state
