// Package state is the replicated state machine: what the cluster has agreed
// upon, and what each command of the log does to it.
//
// It is pure: no clock, goroutine, lock, log or I/O, and nothing depends on the
// order of a map. Times, ids and chance come with the commands, so equal logs
// give equal states on every replica.
//
// # Commands
//
// Apply carries a command out as a whole or refuses it with a code and a message
// for people; a refused command changes nothing but LastIndex. Commands that
// carry grants or jobs answer for each of them. Everything a command says is
// checked again here, since it was proposed on an older state: leaders are fenced
// by their term, controllers by the epoch of their assignment.
//
// What holds after every command is written down as code: see State.Verify. The
// chief of it: each cookie of a task is pending, running or completed, in one of
// them and once; so a job that ends is counted exactly once.
//
// # Work
//
// What there is to do of a task is kept beside the record of its operation: its
// cookies, what each of them reads and has read, and what was measured of its jobs.
// Cookies wait in groups by the memory that is reserved for them: most get what the
// task's controller has learned (UpdateReserves), one that was aborted for overdraft
// gets a reserve of its own. A replica computes no quantile: it keeps samples until
// a controller says which of them are in its digests.
//
// Of a map operation every byte of the input is at any moment to be read by one
// cookie, has been read by one that is completed, or is left out. What a job that
// was asked to leave has not read, or the halves of what a job could not survive,
// become cookies of their own by the same command.
//
// The jobs of a gang have ranks, by the order of their grants. When one ends without
// completing its rank a new incarnation begins: all others have to go, what ranks
// have completed is to be done again, and nothing is granted until all have gone.
//
// # Sharing
//
// Records that readers see belong to the state: they must not be changed, and an
// operation's record must not be read after the next Apply. Allocations, nodes,
// pool trees, events and finished jobs are never changed once made, but replaced.
// Operations are copied before the first change after a Freeze, so a Frozen keeps
// what it saw while the state goes on.
package state
