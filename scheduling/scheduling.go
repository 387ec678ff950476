// Package scheduling is the vocabulary of the scheduler: the names of things.
//
// The packages below it make every decision. All of them are pure: no clock,
// goroutine, lock, log or I/O; time, ids and chance arrive as data, and equal
// input gives equal output.
package scheduling

import "strconv"

// OperationID names an operation for ever, across replicas and restarts.
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

// PoolID is a pool of the cluster under whatever name. None has the id 0: it stands
// for one that is not known, of pools that go by their names alone.
type PoolID uint64

// TaskName names a group of alike jobs within an operation.
type TaskName string

// User names who asked for an operation.
type User string

// Cookie is the index of a job within its task, in [0, number of jobs). It
// survives reruns: a failed or aborted attempt leaves its cookie to the next.
type Cookie int32

const (
	// RootPool is the top of every pool tree. No pool of a user can take its
	// name, for it holds characters that a pool name must not.
	RootPool PoolName = "<Root>"

	// DefaultPool is the pool of operations that name none, unless the tree sets
	// default_parent_pool. A new tree has it, right below RootPool, which takes
	// operations only where its tree says so.
	DefaultPool PoolName = "default"

	// DefaultTree is the pool tree of operations and nodes that name none.
	DefaultTree TreeName = "default"
)

// Token fences off the past: it is the raft term and log index of the entry
// that granted an allocation or a lease. Whoever has seen a token refuses what
// comes with a lesser one.
type Token struct {
	// Term is the raft term of the leader that proposed the grant.
	Term uint64
	// Index is the log index at which the grant was committed.
	Index uint64
}

// Less reports whether t was granted before other.
func (t Token) Less(other Token) bool {
	if t.Term != other.Term {
		return t.Term < other.Term
	}
	return t.Index < other.Index
}

// IsZero reports whether t is the token that was never granted.
func (t Token) IsZero() bool { return t == Token{} }

// String returns the token as "term.index".
func (t Token) String() string {
	return strconv.FormatUint(t.Term, 10) + "." + strconv.FormatUint(t.Index, 10)
}
