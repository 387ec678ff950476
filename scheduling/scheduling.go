// Package scheduling defines the vocabulary of the scheduler: its typed ids and tokens.
//
// The packages below it make every decision. All of them are pure: no clock, goroutine, lock, log
// or I/O; time, ids and randomness are passed in, and equal input gives equal output.
package scheduling

import (
	"strconv"
	"strings"
)

// OperationID names an operation, uniquely across replicas and restarts.
type OperationID string

// JobID names one attempt to run a job, and the allocation that holds its
// resources. A rerun of the same cookie has another JobID.
type JobID string

const (
	// idLength is the length of the ids that replicas make for operations and jobs: UUIDs of version 7.
	idLength = 36
	// shortLength is the length of a short id. The last digits of an id are random, the first ones are the
	// time, which ids of the same minute share.
	shortLength = 8
	// MinPart is how many characters a part of an id has at least, so that a slip of the finger
	// seldom names another one.
	MinPart = 6
)

// ShortID returns what people are shown of the id of an operation or a job: its last 8 digits. An id that no
// replica has made is short already.
func ShortID(id string) string {
	if len(id) != idLength {
		return id
	}
	return id[idLength-shortLength:]
}

// IsPart reports whether a name can be a part of an id: MinPart or more of its digits and dashes, but
// not all of them.
func IsPart(name string) bool {
	return len(name) >= MinPart && len(name) < idLength && strings.Trim(name, "0123456789abcdef-") == ""
}

// HasPart reports whether an id begins or ends with a part, or its short form begins with it.
func HasPart(id, part string) bool {
	return strings.HasPrefix(id, part) || strings.HasSuffix(id, part) || strings.HasPrefix(ShortID(id), part)
}

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
