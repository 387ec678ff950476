package actors

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"weir/actors/controller"
	"weir/actors/gateway"
	"weir/actors/node"
	"weir/actors/remote"
	"weir/cluster"
	"weir/cluster/clock"
	"weir/cluster/gossip"
	"weir/cluster/identity"
	"weir/cluster/storage"
	"weir/cluster/vault"
	"weir/messages/statepb"
	"weir/raftstore"
	"weir/scheduling/engine"
)

// Gossip is the part of gossip that actors use. *gossip.Gossip implements it.
type Gossip interface {
	Broadcast(topic, key string, payload []byte) error
	Handle(topic string, handler gossip.Handler)
	Update(change func(*gossip.Member)) error
}

// Storage finds input, accepts output, and discards unfinished output. *storage.Storage implements
// it.
type Storage interface {
	controller.Storage
	Discard(ctx context.Context, out storage.Output, completed bool) error
}

// Timing holds the timeouts and periods of a replica's actors.
type Timing struct {
	// Node holds the times of leases and heartbeats.
	Node node.Timing
	// ReassignAfter is how long a replica may be gone before its operations are assigned to other
	// controllers. Default 2 s: gossip takes about as long to detect a crash, and a controller
	// that comes back within that time has nothing to catch up with.
	ReassignAfter time.Duration
	// Retry is the pause after a commit that failed. Default 200 ms.
	Retry time.Duration
	// LeaderRetry is the pause before the leader is asked again, because the replica that was asked
	// was unreachable or did not lead. Default 50 ms: much shorter than an election.
	LeaderRetry time.Duration
	// Patience bounds a request of an actor or an agent. Default 10 s: longer than an election.
	Patience time.Duration
	// FairShareUpdate is the period of fair share updates. Default 200 ms.
	FairShareUpdate time.Duration
	// FairShareGap is the shortest time between two updates. Default 10 ms.
	FairShareGap time.Duration
	// SignalKeep is how long interruption signals are remembered. Default 1 min.
	SignalKeep time.Duration
}

// DefaultTiming returns times that fit unless measurements say otherwise.
func DefaultTiming() Timing {
	return Timing{
		Node:            node.DefaultTiming(),
		ReassignAfter:   2 * time.Second,
		Retry:           200 * time.Millisecond,
		LeaderRetry:     50 * time.Millisecond,
		Patience:        10 * time.Second,
		FairShareUpdate: 200 * time.Millisecond,
		FairShareGap:    10 * time.Millisecond,
		SignalKeep:      time.Minute,
	}
}

// Validate returns an error that names the first invalid time.
func (t Timing) Validate() error {
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"reassign_after", t.ReassignAfter}, {"retry", t.Retry}, {"leader_retry", t.LeaderRetry}, {"patience", t.Patience},
		{"fair_share_update", t.FairShareUpdate}, {"fair_share_gap", t.FairShareGap}, {"signal_keep", t.SignalKeep},
	} {
		if field.value <= 0 {
			return fmt.Errorf("timing %s is %s: must be more than 0", field.name, field.value)
		}
	}
	return t.Node.Validate()
}

// Config holds what the actors of a replica need.
type Config struct {
	// ID is the replica's id. Cluster is the cluster's id.
	ID, Cluster string
	// Incarnation distinguishes the lives of this process: random, not 0.
	Incarnation uint64
	Version     string
	Store       *raftstore.Store
	Directory   *cluster.Directory
	Gossip      Gossip
	Dialer      remote.Dialer
	IdentityOf  func(*http.Request) (identity.Identity, error)
	// Clock tells the time of this replica. The store has the same.
	Clock *clock.Clock
	// Limits bound the replicated state; nil means the defaults.
	Limits *statepb.Limits
	// Storage provides the input of map operations and accepts their output.
	Storage Storage
	// Vault opens the secrets of operations; nil if this replica has no key.
	Vault   *vault.Vault
	Engine  engine.Config
	Gateway gateway.Limits
	Timing  Timing
	// Streams bounds the streams to other machines; the zero value means the defaults.
	Streams remote.Limits
	// NewID makes job ids: unique, and in ascending order.
	NewID  func() string
	Logger *slog.Logger
}

// Validate returns an error that names what is missing or invalid.
func (c Config) Validate() error {
	switch {
	case c.ID == "" || c.Cluster == "":
		return fmt.Errorf("actors: id %q, cluster %q: both are required", c.ID, c.Cluster)
	case c.Incarnation == 0:
		return fmt.Errorf("actors of replica %s: incarnation is required", c.ID)
	case c.Store == nil || c.Directory == nil || c.Gossip == nil || c.Dialer == nil || c.IdentityOf == nil || c.NewID == nil || c.Storage == nil || c.Clock == nil || c.Logger == nil:
		return fmt.Errorf("actors of replica %s: store, directory, gossip, dialer, identity, ids, storage, clock and logger are required", c.ID)
	}
	if err := c.Gateway.Validate(); err != nil {
		return err
	}
	return c.Timing.Validate()
}
