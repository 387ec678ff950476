package raftstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"weir/messages/eventpb"
)

// Config holds the settings of a replica: its folder, its peers and its limits. Start
// from Default.
type Config struct {
	// Dir is the replica's own folder; it is created if it does not exist.
	Dir string
	// ClusterID identifies the cluster and never changes. A folder of another cluster is refused.
	ClusterID string
	// ReplicaID identifies the replica and never changes. A folder that belongs to another replica
	// is refused.
	ReplicaID string
	// Address is where other replicas reach this replica's Transport.
	Address string
	// Transport carries raft's connections. It must accept only replicas of this cluster:
	// raft itself trusts every peer that connects.
	Transport Transport
	// InitialPeers are the voters of a new cluster, this replica among them. They are used only if
	// the folder is empty, and must then be the same on every replica. Their order, and the order
	// in which replicas start, do not matter. Without them, an empty replica waits until the leader
	// adds it. On later starts, an address given here overrides the one in the log, so that a
	// cluster can move while it is down.
	InitialPeers []Peer
	// Locate, if set, returns the current address of a replica that is known to be up. This address
	// overrides all others. Locate must not block.
	Locate func(replicaID string) (address string, ok bool)

	// Timeouts determine how soon a dead leader is replaced. Default: DefaultTimeouts.
	Timeouts Timeouts

	// SnapshotThreshold is how many log entries follow a snapshot before the
	// next one is made. Default 8192: a second or two of replay.
	SnapshotThreshold uint64
	// SnapshotInterval is how often SnapshotThreshold is checked. Default 30s.
	SnapshotInterval time.Duration
	// TrailingLogs is how many of the log entries that a snapshot covers are kept, so that a
	// replica that was down for a moment does not need the snapshot. Default 10240.
	TrailingLogs uint64
	// SnapshotLogBytes is how many bytes of log may follow a snapshot before the next one is made
	// at once, without waiting for SnapshotInterval; the size of the last snapshot if that is more,
	// so that snapshots are never written more often than the log. Default 64 MiB: large entries
	// are few, and would otherwise fill the disk long before SnapshotThreshold.
	SnapshotLogBytes int64
	// TrailingBytes bounds the log entries that TrailingLogs keeps, in bytes. Default 32 MiB:
	// beyond it the snapshot is the faster way.
	TrailingBytes int64
	// LogCacheBytes bounds the log entries in memory, for followers and the state machine. Default
	// 32 MiB: 64 full batches.
	LogCacheBytes int64
	// AppendBytes bounds the entries in one request to a follower, which has one at least. Default
	// 4 MiB: a larger request delays heartbeats.
	AppendBytes int64

	// BatchMaxCommands and BatchMaxBytes bound a log entry that holds the commands of several
	// callers. Defaults 512 and 512 KiB, as raft advises: larger entries delay heartbeats.
	BatchMaxCommands int
	BatchMaxBytes    int
	// EntryMaxBytes bounds the commands of one call. Default 4 MiB.
	EntryMaxBytes int
	// EntriesInFlight is how many log entries may be in progress. While that many are in progress,
	// arriving commands wait and share the next entry. Default 2: one is written to disk while the
	// outcome of the other is returned.
	EntriesInFlight int
	// QueueCommands and QueueBytes bound the queue for the log. When the queue is full, Propose
	// returns ErrOverloaded. Defaults 8192 and 64 MiB.
	QueueCommands int
	QueueBytes    int

	// Clock tells the time for commands, while this replica leads. Default: the machine's clock.
	Clock Clock

	// WatchBuffer is how many events are kept for watchers that lag. An event about several jobs
	// counts once for each job. Default 65536.
	WatchBuffer int

	// Events, if set, receives the events of every log entry. The caller closes it after
	// the store.
	Events EventLog

	// CheckPeriod is how often a leader has the replicas compare their states, if commands have come since
	// (see Hashes); 0: never. Default 1 min: so long a wrong replica stays unseen. It costs two small log
	// entries, and at each replica the encoding of the records that have changed since.
	CheckPeriod time.Duration
	// Hashes carries hashes of states between the replicas. Without it only a replica that is the one voter
	// checks its state, against its own log.
	Hashes Hashes

	// DiskStall is how long one write to the log may take before the disk counts as failed; raft
	// itself would continue to lead with a hung disk. Default 1s: no working disk takes this long,
	// and a leader whose disk hangs is replaced as soon as a dead leader. If a write of log entries
	// takes half this time, a leader stops heartbeating, so that another can be elected.
	DiskStall time.Duration
	// Fatal is called when the replica must not continue, by each goroutine that finds out. It should end the process.
	// Default: panic.
	Fatal func(error)

	// spoil, if set, wraps the files with faults, for tests.
	spoil func(files) files
	// doubtAfter replaces the constant of that name, for tests.
	doubtAfter time.Duration

	// Logger receives changes that matter to an operator and, at debug level, raft's own
	// log. Default: slog.Default().
	Logger *slog.Logger
}

// Clock tells the time.
type Clock interface {
	// Now returns the time of a command that is proposed now.
	Now() time.Time
	// Applied is called with the time of the state after each log entry and each snapshot.
	Applied(at time.Time)
}

// wallClock is the clock of the machine.
type wallClock struct{}

// Now implements Clock.
func (wallClock) Now() time.Time { return time.Now() }

// Applied implements Clock.
func (wallClock) Applied(time.Time) {}

// EventLog keeps events; see package events. No method except Sync waits for a disk.
type EventLog interface {
	// Begin is called before the other methods. The parameter last is the last index of the command
	// log; the event log must drop events after it.
	Begin(last uint64) error
	// Append adds the events of one log entry; it is called in log order. Jump is called when a
	// snapshot at index has replaced the state, so that the events before it are unknown here.
	Append(index uint64, told []*eventpb.Event)
	Jump(index uint64)
	// Sync returns when all appended events are on disk.
	Sync(ctx context.Context) error
}

// Peer is a voter of a new cluster.
type Peer struct {
	ID, Address string
}

// Transport carries connections between replicas.
type Transport struct {
	// Listener accepts connections from other replicas. The store closes it.
	Listener net.Listener
	// Dial connects to the replica at address.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Timeouts are the timeouts of raft. Each is measured by one machine's clock.
type Timeouts struct {
	// Heartbeat is how long a follower waits to hear from its leader before it starts an election.
	// A leader that falls silent is replaced after about twice this time. One whose port refuses connections
	// is replaced after Lease.
	Heartbeat time.Duration
	// Election is how long an election may take before it is repeated. It must be at least
	// Heartbeat.
	Election time.Duration
	// Lease is how long a leader continues to lead when a majority refuses its connections. It must be at most
	// Heartbeat. While connections stand, it leads until twice Heartbeat after the last request that a majority has answered.
	Lease time.Duration
	// RPC bounds one request to another replica. A snapshot may take this long per 256 KiB.
	RPC time.Duration
}

// silence is how long a follower may fail to answer and still count as live.
func (t Timeouts) silence() time.Duration { return 2 * t.Heartbeat }

// lateness is how old the last answer of a follower may be that raft is given again. With the lease after it, a leader that
// is cut off does not lead for longer than it takes the others, by chance, to stand for election.
func (t Timeouts) lateness() time.Duration { return 2*t.Heartbeat - t.Lease }

// DefaultTimeouts suit machines that run other work too.
func DefaultTimeouts() Timeouts {
	return Timeouts{Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond, RPC: 3 * time.Second}
}

// FastTimeouts suit machines where replicas never wait for a processor.
func FastTimeouts() Timeouts {
	return Timeouts{
		Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond, Lease: 150 * time.Millisecond, RPC: time.Second,
	}
}

// Default returns a Config with every default; the caller sets Dir, ClusterID, ReplicaID,
// Address and Transport.
func Default() Config {
	return Config{
		Timeouts:          DefaultTimeouts(),
		SnapshotThreshold: 8192,
		SnapshotInterval:  30 * time.Second,
		TrailingLogs:      10240,
		SnapshotLogBytes:  64 << 20,
		TrailingBytes:     32 << 20,
		LogCacheBytes:     32 << 20,
		AppendBytes:       4 << 20,
		BatchMaxCommands:  512,
		BatchMaxBytes:     512 << 10,
		EntryMaxBytes:     4 << 20,
		EntriesInFlight:   2,
		QueueCommands:     8192,
		QueueBytes:        64 << 20,
		Clock:             wallClock{},
		WatchBuffer:       65536,
		CheckPeriod:       time.Minute,
		Hashes:            noHashes{},
		DiskStall:         time.Second,
		Fatal:             func(err error) { panic(err) },
		Logger:            slog.Default(),
	}
}

// Validate returns an error that names every invalid setting.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Dir == "", "dir is empty: it must be the replica's folder")
	refuse(c.ClusterID == "", "cluster id is empty")
	refuse(c.ReplicaID == "", "replica id is empty")
	refuse(c.Address == "", "address is empty: other replicas need one to connect to")
	refuse(c.Transport.Listener == nil || c.Transport.Dial == nil, "transport needs a listener and a dial function")
	t := c.Timeouts
	refuse(t.Lease < 5*time.Millisecond, "lease timeout %v is below 5ms", t.Lease)
	refuse(t.Heartbeat < t.Lease, "heartbeat timeout %v is below the lease timeout %v", t.Heartbeat, t.Lease)
	refuse(t.Election < t.Heartbeat, "election timeout %v is below the heartbeat timeout %v", t.Election, t.Heartbeat)
	refuse(t.RPC < t.Lease, "rpc timeout %v is below the lease timeout %v", t.RPC, t.Lease)
	refuse(c.SnapshotThreshold == 0, "snapshot threshold is 0")
	refuse(c.SnapshotInterval < 5*time.Millisecond, "snapshot interval %v is below 5ms", c.SnapshotInterval)
	refuse(c.SnapshotLogBytes < 1, "snapshot after %d bytes of log: must be at least 1", c.SnapshotLogBytes)
	refuse(c.TrailingBytes < 1, "%d bytes of log behind a snapshot: must be at least 1", c.TrailingBytes)
	refuse(c.LogCacheBytes < 1, "log cache of %d bytes: must be at least 1", c.LogCacheBytes)
	refuse(c.AppendBytes < 1, "requests of %d bytes to followers: must be at least 1", c.AppendBytes)
	refuse(c.BatchMaxCommands < 1, "batch of %d commands: must be at least 1", c.BatchMaxCommands)
	refuse(c.BatchMaxBytes < 1, "batch of %d bytes: must be at least 1", c.BatchMaxBytes)
	refuse(c.EntryMaxBytes < c.BatchMaxBytes, "entry limit of %d bytes is smaller than one batch (%d)", c.EntryMaxBytes, c.BatchMaxBytes)
	refuse(c.EntriesInFlight < 1, "%d entries in flight: must be at least 1", c.EntriesInFlight)
	refuse(c.QueueCommands < c.BatchMaxCommands, "queue of %d commands is smaller than one batch (%d)", c.QueueCommands, c.BatchMaxCommands)
	refuse(c.QueueBytes < c.EntryMaxBytes, "queue of %d bytes is smaller than one entry (%d)", c.QueueBytes, c.EntryMaxBytes)
	refuse(c.Clock == nil, "clock is not set")
	refuse(c.WatchBuffer < 1, "watch buffer of %d events: must be at least 1", c.WatchBuffer)
	refuse(c.CheckPeriod < 0, "states are compared every %v: must not be negative; 0: never", c.CheckPeriod)
	refuse(c.Hashes == nil, "hashes is not set")
	refuse(c.DiskStall <= 0, "disk stall limit %v: must be above 0", c.DiskStall)
	refuse(c.Fatal == nil, "fatal is not set")
	refuse(c.Logger == nil, "logger is not set")
	errs = append(errs, c.validatePeers())
	return errors.Join(errs...)
}

// validatePeers checks that the initial peers are distinct and include this
// replica.
func (c Config) validatePeers() error {
	if len(c.InitialPeers) == 0 {
		return nil
	}
	ids, addresses := map[string]bool{}, map[string]bool{}
	for _, p := range c.InitialPeers {
		switch {
		case p.ID == "" || p.Address == "":
			return fmt.Errorf("initial peer %q at %q: needs an id and an address", p.ID, p.Address)
		case ids[p.ID]:
			return fmt.Errorf("initial peer %q is listed twice", p.ID)
		case addresses[p.Address]:
			return fmt.Errorf("initial peers: address %s is listed twice", p.Address)
		case p.ID == c.ReplicaID && p.Address != c.Address:
			return fmt.Errorf("initial peer %q is at %s, but this replica's address is %s", p.ID, p.Address, c.Address)
		}
		ids[p.ID], addresses[p.Address] = true, true
	}
	if !ids[c.ReplicaID] {
		return fmt.Errorf("initial peers do not list this replica, %q", c.ReplicaID)
	}
	return nil
}
