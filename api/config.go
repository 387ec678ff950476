// Package api serves the public API of a replica.
//
// Every replica answers every call. It reads from its own copy of the state after a
// read barrier, so that reads are linearizable, and writes by proposing commands to
// the leader. The same handlers speak gRPC, gRPC-web, and JSON by plain POST.
package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/cluster"
	"weir/cluster/identity"
	"weir/cluster/vault"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/raftstore"
	"weir/raftstore/state"
)

// Store is this replica's copy of the state.
type Store interface {
	View(func(*state.State))
	Applied() uint64
	// Follow calls the function `each` for every log entry that has events, starting at the index
	// `from`, until ctx is done. It returns a *raftstore.CompactedError if entries are missing.
	Follow(ctx context.Context, from uint64, each func(raftstore.Batch)) error
	Members() ([]raftstore.Member, error)
	Leadership() (current raftstore.Leadership, changed <-chan struct{})
	Transfer(ctx context.Context, to string) error
	AddReplica(ctx context.Context, id, address string) error
	RemoveReplica(ctx context.Context, id string, force bool) error
	PromoteReplica(ctx context.Context, id string) error
	DemoteReplica(ctx context.Context, id string, force bool) error
	Admit(ctx context.Context, a raftstore.Applicant) (raftstore.Suffrage, error)
	Backup(w io.Writer) error
}

// Log reaches the leader from any replica.
type Log interface {
	ProposeBy(ctx context.Context, by *commandpb.Subject, command proto.Message) (*commandpb.Result, error)
	ReadBarrier(ctx context.Context) error
}

// Leader sends requests to the leader's actors.
type Leader interface {
	SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error)
	PoolHistory(ctx context.Context, m *actorpb.PoolHistoryRequest) (*actorpb.PoolHistory, error)
	JobLive(ctx context.Context, jobs []string) (*actorpb.JobLive, error)
	ReadOutput(ctx context.Context, m *actorpb.ReadOutput) (*actorpb.OutputPart, error)
	ReadFile(ctx context.Context, m *actorpb.ReadFile) (*actorpb.FilePart, error)
	Exec(ctx context.Context, m *actorpb.Exec) (*actorpb.ExecPart, error)
}

// Objects reads objects that jobs of an operation have written, with the credentials that it has.
type Objects interface {
	// ReadObject returns a part of an object, and its size. It returns storage.ErrNoObject and
	// storage.ErrUnavailable, wrapped.
	ReadObject(ctx context.Context, operation, path string, offset, limit int64) (data []byte, size int64, err error)
}

// Signals knows which jobs are stopping, and at which addresses jobs are reached.
type Signals interface {
	Stopping(job string) string
	// Instances returns the jobs of an operation as this replica sees them. It waits
	// until the jobs differ from the version that an earlier call returned, or until ctx
	// is done.
	Instances(ctx context.Context, operation, version string) *actorpb.Instances
}

// Limits bound the load that one replica accepts from clients.
type Limits struct {
	// Calls is how many calls may be in flight, not counting those that wait for an
	// operation to change or read output. Default 1024. Of n users with calls, each may have a
	// share of 1/(n+1), and so on for the other kinds.
	Calls int
	// Watches is how many calls may wait for an operation to change. Default 4096.
	Watches int
	// Outputs is how many calls may read output. Default 256: each holds up to 128 KiB.
	Outputs int
	// QueueTime bounds how long a call waits for a place before it is rejected; half of it is random.
	// Default 500 ms: a client that waits costs less than one that comes again, but may give up after 1 s.
	QueueTime time.Duration
	// MessageBytes is the largest request that starts an operation. Default 2 MiB: a spec of the
	// largest size with its envelope. Other requests have bounds of their own.
	MessageBytes int
	// LargeRequests is how many calls may send more than 64 KiB at once. Default 8: each may need
	// 20 MiB until it has ended.
	LargeRequests int
	// AtLeader is how many calls may wait for the leader at once, besides those that share a request with
	// others. Default 64: it carries out many together, and what waits there cannot be shared among users
	// any more.
	AtLeader int
	// Computing is how many calls may compute at once. Default: half of the processors, so that the others are left
	// for the log, the scheduler and the connections; at least two, so that no user's call waits for another's.
	Computing int
	// AnswerBytes is about the largest list of pools in one answer; the next one has the rest.
	// Default 48 MiB: clients read up to 64 MiB.
	AnswerBytes int
	// Patience bounds every call that does not wait, also one with a later deadline or
	// none. Default 10 s: longer than an election.
	Patience time.Duration
	// MaxWait bounds a wait for an operation. Default 10 min.
	MaxWait time.Duration
	// KeepAlive is how often a watch sends a message when nothing has changed, so
	// that clients notice replicas that hang. Default 5 s.
	KeepAlive time.Duration
	// Stall is how long a client may take to send its request, or to receive one
	// write of the answer, before it is disconnected. Default 10 s.
	Stall time.Duration
	// RetryAfter is the least delay before a retry that an overload error suggests; a user whose calls wait in
	// front of the door is told to come when half of them have had their turns. Default 200 ms.
	RetryAfter time.Duration
}

// DefaultLimits returns the default of every limit.
func DefaultLimits() Limits {
	return Limits{
		Calls: 1024, Watches: 4096, Outputs: 256, QueueTime: 500 * time.Millisecond, MessageBytes: 2 << 20, AnswerBytes: 48 << 20,
		LargeRequests: 8, AtLeader: 64, Computing: max(2, runtime.GOMAXPROCS(0)/2), Patience: 10 * time.Second, MaxWait: 10 * time.Minute,
		KeepAlive: 5 * time.Second, Stall: 10 * time.Second, RetryAfter: 200 * time.Millisecond,
	}
}

// Validate returns an error that names the first invalid limit.
func (l Limits) Validate() error {
	for _, limit := range []struct {
		name string
		ok   bool
	}{
		{"calls", l.Calls > 0}, {"watches", l.Watches > 0}, {"outputs", l.Outputs > 0}, {"queue_time", l.QueueTime > 0}, {"message_bytes", l.MessageBytes > 0}, {"answer_bytes", l.AnswerBytes > 0},
		{"large_requests", l.LargeRequests > 0}, {"at_leader", l.AtLeader > 0}, {"computing", l.Computing > 0},
		{"patience", l.Patience > 0}, {"max_wait", l.MaxWait > 0}, {"keep_alive", l.KeepAlive > 0}, {"stall", l.Stall > 0}, {"retry_after", l.RetryAfter > 0},
	} {
		if !limit.ok {
			return fmt.Errorf("api limit %s: must be more than 0", limit.name)
		}
	}
	return nil
}

// Config holds the settings of a replica's API, and the parts of the replica it uses.
type Config struct {
	// Replica is the id of the replica. Cluster is the id of the cluster.
	Replica, Cluster, Version string
	Store                     Store
	Log                       Log
	Leader                    Leader
	Objects                   Objects
	Signals                   Signals
	Events                    Events
	Audit                     Audit
	Directory                 *cluster.Directory
	// IdentityOf returns the identity of the client that sent a request.
	IdentityOf func(*http.Request) (identity.Identity, error)
	// Vault seals the secrets of operations; nil if this replica has no key.
	Vault *vault.Vault
	// NewID returns a new id for an operation: unique, and greater than earlier ones.
	NewID func() string
	// Observe, if set, is called when a call ends, with its procedure, the code of
	// its error or "ok", and how long it took. The procedure is "unknown" if the
	// client named one that does not exist.
	Observe func(procedure, code string, took time.Duration)
	// Health, if set, returns the health of this replica, for Status.
	Health func() Health
	// Now returns the time that commands carry.
	Now    func() time.Time
	Limits Limits
	Logger *slog.Logger
}

// Validate returns an error that names the first part that is missing or invalid.
func (c Config) Validate() error {
	for _, part := range []struct {
		name string
		ok   bool
	}{
		{"replica", c.Replica != ""}, {"store", c.Store != nil}, {"log", c.Log != nil}, {"leader", c.Leader != nil}, {"objects", c.Objects != nil},
		{"signals", c.Signals != nil}, {"events", c.Events != nil}, {"audit log", c.Audit != nil}, {"directory", c.Directory != nil}, {"identity of requests", c.IdentityOf != nil},
		{"ids", c.NewID != nil}, {"clock", c.Now != nil}, {"logger", c.Logger != nil},
	} {
		if !part.ok {
			return fmt.Errorf("api: %s is missing", part.name)
		}
	}
	return c.Limits.Validate()
}
