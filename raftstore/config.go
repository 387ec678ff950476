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

// Config says where a replica keeps its log, how it reaches the others, and
// where its limits are. Start from Default.
type Config struct {
	// Dir is the replica's own folder; it is made when it does not exist.
	Dir string
	// ClusterID names the cluster for ever. A folder of another one is refused.
	ClusterID string
	// ReplicaID names the replica for ever. A folder that belongs to another
	// one is refused.
	ReplicaID string
	// Address is where the other replicas reach this one's Transport.
	Address string
	// Transport carries raft's connections. It must let in replicas of this
	// cluster only: raft itself believes whoever connects.
	Transport Transport
	// InitialPeers are the voters of a new cluster, this replica among them.
	// They count for an empty folder only, and must then be the same on every
	// replica; the order, and when each one starts, do not matter. Without them
	// an empty folder waits until the leader adds this replica. Later, an
	// address given here counts for its replica rather than the one in the log:
	// a cluster that is down may move.
	InitialPeers []Peer
	// Locate, if set, tells where a replica is that is known to live: that counts
	// above all, for it knows best. It must not block.
	Locate func(replicaID string) (address string, ok bool)

	// Timeouts fix how soon a dead leader is replaced. Default: DefaultTimeouts.
	Timeouts Timeouts

	// SnapshotThreshold is how many log entries follow a snapshot before the
	// next one is made. Default 8192: a second or two of replay.
	SnapshotThreshold uint64
	// SnapshotInterval is how often the threshold is looked at. Default 30s.
	SnapshotInterval time.Duration
	// TrailingLogs is how many log entries stay behind a snapshot, so that a
	// replica that was away for a moment needs no snapshot. Default 10240.
	TrailingLogs uint64

	// BatchMaxCommands and BatchMaxBytes end the filling of a log entry with
	// the commands of several callers. Defaults 512 and 512 KiB: raft's advice,
	// larger entries delay heartbeats.
	BatchMaxCommands int
	BatchMaxBytes    int
	// EntryMaxBytes bounds the commands of one call. Default 4 MiB.
	EntryMaxBytes int
	// EntriesInFlight is how many log entries may be under way; commands that
	// come meanwhile share the next one. Default 2: one on its way to disk, one
	// on its way back.
	EntriesInFlight int
	// QueueCommands and QueueBytes bound what waits for a log entry; beyond
	// them Propose answers ErrOverloaded. Defaults 8192 and 64 MiB.
	QueueCommands int
	QueueBytes    int

	// WatchBuffer is how many events are kept for watchers that lag; one that tells of
	// many jobs counts for each of them. Default 65536.
	WatchBuffer int

	// Events, if set, is told what happens. The caller closes it after the store.
	Events EventLog

	// DiskStall is how long one write to the log may take before the disk is
	// taken for dead; raft alone would lead on without it. Default 1s: a leader
	// whose disk hangs is then replaced as soon as one that has died, and no
	// disk that works takes so long. After half this time, while log entries are
	// being written, a leader stops heartbeating, so that another can be elected.
	DiskStall time.Duration
	// Fatal is called, once, when going on would be wrong; it should end the
	// process. Default: panic.
	Fatal func(error)

	// spoil, if set, makes a disk that fails or hangs of one that works.
	spoil func(files) files

	// Logger is told of changes that matter to an operator, and at debug level
	// of what raft does. Default: slog.Default().
	Logger *slog.Logger
}

// EventLog keeps what happened; see package events. None of its methods but Sync waits
// for a disk.
type EventLog interface {
	// Begin comes first: the log of commands ends at last, and no event is of later.
	Begin(last uint64) error
	// Append takes the events of each log entry in order, Jump tells that the state is
	// one of a snapshot at index, and what led to it is not known here.
	Append(index uint64, told []*eventpb.Event)
	Jump(index uint64)
	// Sync returns when what was appended is on disk.
	Sync(ctx context.Context) error
}

// Peer is a replica that takes part in the votes.
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

// Timeouts are raft's, all of them on the clock of one machine.
type Timeouts struct {
	// Heartbeat is how long a follower does without its leader before it asks
	// for an election. A dead leader is replaced after about twice this time.
	Heartbeat time.Duration
	// Election is how long an election may take before the next one. At least
	// Heartbeat.
	Election time.Duration
	// Lease is how long a leader goes on without hearing from a majority. At
	// most Heartbeat.
	Lease time.Duration
	// RPC bounds one exchange between replicas; a snapshot may take this long
	// per 256 KiB.
	RPC time.Duration
}

// DefaultTimeouts suit machines that are shared with other work.
func DefaultTimeouts() Timeouts {
	return Timeouts{Heartbeat: time.Second, Election: time.Second, Lease: 500 * time.Millisecond, RPC: 3 * time.Second}
}

// FastTimeouts suit machines where replicas get a processor when they need it.
func FastTimeouts() Timeouts {
	return Timeouts{
		Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond, Lease: 150 * time.Millisecond, RPC: time.Second,
	}
}

// Default returns a Config with every default; Dir, ReplicaID, Address and
// Transport are still to be set.
func Default() Config {
	return Config{
		Timeouts:          DefaultTimeouts(),
		SnapshotThreshold: 8192,
		SnapshotInterval:  30 * time.Second,
		TrailingLogs:      10240,
		BatchMaxCommands:  512,
		BatchMaxBytes:     512 << 10,
		EntryMaxBytes:     4 << 20,
		EntriesInFlight:   2,
		QueueCommands:     8192,
		QueueBytes:        64 << 20,
		WatchBuffer:       65536,
		DiskStall:         time.Second,
		Fatal:             func(err error) { panic(err) },
		Logger:            slog.Default(),
	}
}

// Validate names every setting that cannot be used.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Dir == "", "dir is empty: name the replica's folder")
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
	refuse(c.BatchMaxCommands < 1, "batch of %d commands: must be at least 1", c.BatchMaxCommands)
	refuse(c.BatchMaxBytes < 1, "batch of %d bytes: must be at least 1", c.BatchMaxBytes)
	refuse(c.EntryMaxBytes < c.BatchMaxBytes, "entry limit of %d bytes is below the batch's %d", c.EntryMaxBytes, c.BatchMaxBytes)
	refuse(c.EntriesInFlight < 1, "%d entries in flight: must be at least 1", c.EntriesInFlight)
	refuse(c.QueueCommands < c.BatchMaxCommands, "queue of %d commands is below a batch's %d", c.QueueCommands, c.BatchMaxCommands)
	refuse(c.QueueBytes < c.EntryMaxBytes, "queue of %d bytes is below an entry's %d", c.QueueBytes, c.EntryMaxBytes)
	refuse(c.WatchBuffer < 1, "watch buffer of %d events: must be at least 1", c.WatchBuffer)
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
