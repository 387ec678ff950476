package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"weir/cluster/gossip"
	"weir/scheduling"
)

// Action is how a replica begins.
type Action uint8

// The actions.
const (
	// Wait means: decide again when the members change. Raft may run meanwhile:
	// a leader that knows this replica as a voter brings it up to date.
	Wait Action = iota
	// Begin means: write Decision.Voters to the empty log as its first
	// configuration.
	Begin
	// Resume means: the log is not empty; go on from it.
	Resume
)

var actionNames = [...]string{Wait: "wait", Begin: "begin", Resume: "resume"}

// String returns the action's name.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// Decision is what Bootstrap decided.
type Decision struct {
	Action Action
	// Voters is the first configuration, set for Begin only.
	Voters Peers
	// Reason explains the decision, for the log.
	Reason string
}

// Bootstrap decides how the replica `self`, which was started with the list `peers`, begins.
// `initialized` says that its log is not empty. `members` are the members that gossip reports.
//
// Replicas with equal lists and empty logs each write the same first configuration, which raft
// allows. So it does not matter in which order they start, or how many. Two rules keep unequal
// lists from founding two clusters: a replica begins only when it sees a majority of its list alive
// with the same list, and it returns ErrPeerListsDiffer as soon as it sees a member with another
// list. A replica that has lost its disk and sees its cluster initialized does not begin again: the
// leader brings it up to date.
//
// A replica that is not in its own list waits to be added as a voter.
func Bootstrap(self scheduling.ReplicaID, peers Peers, initialized bool, members []gossip.Member) (Decision, error) {
	if initialized {
		return Decision{Action: Resume, Reason: "belongs to an existing cluster"}, nil
	}
	if _, listed := peers.Address(self); !listed {
		return Decision{Reason: fmt.Sprintf("%s is not in the list of initial peers: waiting to be added: run weir cluster add %s --address HOST:PORT", self, self)}, nil
	}
	if err := checkLists(self, peers, members); err != nil {
		return Decision{}, err
	}
	agreeing := 1 // Self, which gossip may not report yet.
	for _, member := range members {
		if _, listed := peers.Address(member.ID); !listed {
			continue
		}
		if member.Initialized && member.ID != self {
			return Decision{Reason: fmt.Sprintf("the cluster already exists, according to %s: waiting for its leader", member.ID)}, nil
		}
		if member.ID != self && member.PeerList != "" {
			agreeing++ // checkLists has compared its list with ours.
		}
	}
	if majority := len(peers)/2 + 1; agreeing < majority {
		return Decision{Reason: fmt.Sprintf("sees %d of %d initial peers, but needs %d", agreeing, len(peers), majority)}, nil
	}
	return Decision{Action: Begin, Voters: peers, Reason: fmt.Sprintf("sees %d of %d initial peers with the same list", agreeing, len(peers))}, nil
}

// checkLists compares our list with the members'. A member without a list
// waits to be added to a cluster, and is skipped.
func checkLists(self scheduling.ReplicaID, peers Peers, members []gossip.Member) error {
	ours := peers.Fingerprint()
	for _, member := range members {
		if member.ID != self && member.PeerList != "" && member.PeerList != ours {
			return fmt.Errorf("bootstrap %s: %w: ours is %s (%s), that of %s at %s is %s: start all replicas with the same list",
				self, ErrPeerListsDiffer, ours, peers, member.ID, member.Address, member.PeerList)
		}
	}
	return nil
}

// AwaitBootstrap calls Bootstrap again whenever the members change, until it decides to Begin or to
// Resume, or returns an error. initialized is called each time, because a leader may fill the log
// meanwhile. The caller announces with Member.Initialized that the log is not empty: this change
// wakes the call too. Each new reason to wait is logged.
func AwaitBootstrap(ctx context.Context, self scheduling.ReplicaID, peers Peers, initialized func() bool, membership Membership, log *slog.Logger) (Decision, error) {
	changes := make(chan []gossip.Member, 1)
	cancel := membership.Subscribe(func(members []gossip.Member) {
		select {
		case <-changes: // Drop the older list, which was not received.
		default:
		}
		// Calls come one at a time, so there is room; but make sure not to block.
		select {
		case changes <- members:
		default:
		}
	})
	defer cancel()
	var members []gossip.Member
	for reason := ""; ; {
		decision, err := Bootstrap(self, peers, initialized(), members)
		if err != nil || decision.Action != Wait {
			return decision, err
		}
		if decision.Reason != reason {
			reason = decision.Reason
			log.Info("bootstrap waiting", "reason", reason)
		}
		select {
		case members = <-changes:
		case <-ctx.Done():
			return Decision{}, fmt.Errorf("bootstrap %s: %w: %s", self, context.Cause(ctx), reason)
		}
	}
}
