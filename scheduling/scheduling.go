// Package scheduling defines the vocabulary of the scheduler: its typed ids and tokens.
//
// The packages below it make every decision. All of them are pure: no clock, goroutine, lock, log
// or I/O; time, ids and randomness are passed in, and equal input gives equal output.
package scheduling

import "strconv"

// OperationID names an operation, uniquely across replicas and restarts.
type OperationID string

// JobID names one attempt to run a job, and the allocation that holds its
// resources. A rerun of the same cookie has another JobID.
type JobID string

// NodeID names a machine that runs jobs.
type NodeID string

// ReplicaID names a server of the replicated control plane.
type ReplicaID string

// TreeName names a pool tree.
type TreeName string

// PoolName names a pool within its tree.
type PoolName string

// PoolID identifies a pool of the cluster across renames. 0 means unknown: the pool is identified
// by its name alone.
type PoolID uint64

// TaskName names a group of uniform jobs within an operation.
type TaskName string

// User is the name of the user who submitted an operation.
type User string

// Cookie is the index of a job within its task, in [0, number of jobs). It survives reruns: after
// a failed or aborted attempt the next one has the same cookie.
type Cookie int32

const (
	// RootPool is the root of every pool tree. No user's pool can have its name, because it
	// contains characters that are invalid in pool names.
	RootPool PoolName = "<Root>"

	// DefaultPool is the pool of operations that name no pool, unless the tree sets
	// default_parent_pool. A new tree has it, directly below RootPool, because RootPool accepts
	// operations only if its tree allows that.
	DefaultPool PoolName = "default"

	// DefaultTree is the pool tree of operations and nodes that name no tree.
	DefaultTree TreeName = "default"
)

// Token is a fencing token: the raft term and log index of the entry that granted an allocation or
// a lease. A process that has seen a token refuses messages with a lesser one.
type Token struct {
	// Term is the raft term of the leader that proposed the grant.
	Term uint64
	// Index is the log index at which the grant was committed.
	Index uint64
}

// Less reports whether t was granted before `other`.
func (t Token) Less(other Token) bool {
	if t.Term != other.Term {
		return t.Term < other.Term
	}
	return t.Index < other.Index
}

// IsZero reports whether t is the zero token, which is never granted.
func (t Token) IsZero() bool { return t == Token{} }

// String returns the token as "term.index".
func (t Token) String() string {
	return strconv.FormatUint(t.Term, 10) + "." + strconv.FormatUint(t.Index, 10)
}
