// Package api serves the public API of a replica.
//
// Every replica answers every call: reads from its own copy of the state once it
// has seen all that was answered before, writes by proposing commands wherever
// the leader is. The same handlers speak gRPC, gRPC-web, and JSON by plain POST.
package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/cluster"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/raftstore"
	"weir/raftstore/state"
)

// Store is this replica's copy of the state.
type Store interface {
	View(func(*state.State))
	Applied() uint64
	// Follow hands over every log entry with events at or after from, until ctx is
	// done; it returns a *raftstore.CompactedError where entries are missing.
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
	Propose(ctx context.Context, commands ...proto.Message) ([]*commandpb.Result, error)
	ReadBarrier(ctx context.Context) error
}

// Leader asks the leader's actors.
type Leader interface {
	SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error)
	PoolHistory(ctx context.Context, m *actorpb.PoolHistoryRequest) (*actorpb.PoolHistory, error)
	JobLive(ctx context.Context, jobs []string) (*actorpb.JobLive, error)
	ReadOutput(ctx context.Context, m *actorpb.ReadOutput) (*actorpb.OutputPart, error)
}

// Signals knows which jobs are on their way out, and where jobs are reached.
type Signals interface {
	Stopping(job string) string
	// Instances returns the jobs of an operation as this replica sees them: once they
	// differ from those of a version that it returned before, or as they are when ctx
	// is done.
	Instances(ctx context.Context, operation, version string) *actorpb.Instances
}

// Limits bound what one replica takes on from clients.
type Limits struct {
	// Calls is how many calls may be under way, without those that wait for an
	// operation to change. Default 1024.
	Calls int
	// Watches is how many calls may wait for an operation to change. Default 4096.
	Watches int
	// MessageBytes is the largest request. Default 2 MiB: a spec of the largest
	// size with its envelope.
	MessageBytes int
	// Patience bounds a call that states no deadline, or a later one. Default 10 s:
	// longer than an election.
	Patience time.Duration
	// MaxWait bounds a wait for an operation. Default 10 min.
	MaxWait time.Duration
	// KeepAlive is how often a watch says something when nothing has changed, so
	// that clients notice replicas that hang. Default 5 s.
	KeepAlive time.Duration
	// Stall is how long a client may take to send its request, or to make room for
	// a part of the answer, before it is cut off. Default 10 s.
	Stall time.Duration
	// RetryAfter is the hint that goes with a refusal for overload. Default 200 ms.
	RetryAfter time.Duration
}

// DefaultLimits returns the limits that fit unless measured otherwise.
func DefaultLimits() Limits {
	return Limits{
		Calls: 1024, Watches: 4096, MessageBytes: 2 << 20, Patience: 10 * time.Second, MaxWait: 10 * time.Minute,
		KeepAlive: 5 * time.Second, Stall: 10 * time.Second, RetryAfter: 200 * time.Millisecond,
	}
}

// Validate returns an error that names the first limit that cannot work.
func (l Limits) Validate() error {
	for _, limit := range []struct {
		name string
		ok   bool
	}{
		{"calls", l.Calls > 0}, {"watches", l.Watches > 0}, {"message_bytes", l.MessageBytes > 0},
		{"patience", l.Patience > 0}, {"max_wait", l.MaxWait > 0}, {"keep_alive", l.KeepAlive > 0}, {"stall", l.Stall > 0}, {"retry_after", l.RetryAfter > 0},
	} {
		if !limit.ok {
			return fmt.Errorf("api limit %s: must be more than 0", limit.name)
		}
	}
	return nil
}

// Config is what the API of a replica works with.
type Config struct {
	// Replica is the replica's id, Cluster the cluster's.
	Replica, Cluster, Version string
	Store                     Store
	Log                       Log
	Leader                    Leader
	Signals                   Signals
	Events                    Events
	Directory                 *cluster.Directory
	// IdentityOf says who sent a request.
	IdentityOf func(*http.Request) (identity.Identity, error)
	// NewID makes ids of operations: unique, and later ones are greater.
	NewID func() string
	// Observe, if set, is told of every call that ended: its procedure, the code
	// of its error or "ok", and how long it took. Calls of no known procedure are
	// "unknown".
	Observe func(procedure, code string, took time.Duration)
	// Health, if set, is how this replica stands, for Status.
	Health func() Health
	// Now is the time of commands.
	Now    func() time.Time
	Limits Limits
	Logger *slog.Logger
}

// Validate returns an error that names what is missing or cannot work.
func (c Config) Validate() error {
	for _, part := range []struct {
		name string
		ok   bool
	}{
		{"replica", c.Replica != ""}, {"store", c.Store != nil}, {"log", c.Log != nil}, {"leader", c.Leader != nil},
		{"signals", c.Signals != nil}, {"events", c.Events != nil}, {"directory", c.Directory != nil}, {"identity of requests", c.IdentityOf != nil},
		{"ids", c.NewID != nil}, {"clock", c.Now != nil}, {"logger", c.Logger != nil},
	} {
		if !part.ok {
			return fmt.Errorf("api: %s: is needed", part.name)
		}
	}
	return c.Limits.Validate()
}
