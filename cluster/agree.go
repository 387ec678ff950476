package cluster

import (
	"fmt"
	"slices"

	"weir/cluster/gossip"
	"weir/scheduling"
)

// Agree decides whether a replica that was started with the list peers can be part
// of a cluster that has begun and consists of committed. founding is the fingerprint
// of the list that this replica began the cluster with, "" if it did not; members
// are the live ones.
//
// The list is that of the cluster's members, or the one that the cluster began with,
// or that the others were started with; else it returns ErrPeerListsDiffer. But when
// members were added or removed since, so that no list says what the cluster is, what
// is committed counts, and reason says so.
func Agree(self scheduling.ReplicaID, peers Peers, founding string, committed Peers, members []gossip.Member) (reason string, err error) {
	ours := peers.Fingerprint()
	if len(peers) == 0 || len(committed) == 0 || peers.sameIDs(committed) {
		return "", nil
	}
	known := map[string]bool{founding: founding != ""}
	for _, member := range members {
		if member.ID != self && member.Initialized && member.PeerList != "" {
			known[member.PeerList] = true
		}
	}
	switch {
	case known[ours]:
		return fmt.Sprintf("the list of peers is %s, but the members are now %s: using the members", peers, committed), nil
	case known[committed.Fingerprint()]:
		return "", fmt.Errorf("replica %s: %w: ours is %s, but the cluster started with %s: use that list; "+
			"to add a new replica, start it with --join and run weir cluster add", self, ErrPeerListsDiffer, peers, committed)
	}
	return fmt.Sprintf("the list of peers is %s, which no other replica has, and the members have changed to %s: using the members", peers, committed), nil
}

// sameIDs reports whether both lists have the same replicas, wherever these are.
func (p Peers) sameIDs(other Peers) bool {
	if len(p) != len(other) {
		return false
	}
	return !slices.ContainsFunc(other, func(peer Peer) bool { _, listed := p.Address(peer.ID); return !listed })
}
