package cluster

import (
	"fmt"
	"slices"

	"weir/cluster/gossip"
	"weir/scheduling"
)

// Agree checks the list `peers`, with which a replica was started, against a bootstrapped cluster
// whose voters are `committed`. founding is the fingerprint of the list with which this replica
// bootstrapped the cluster, or "" if it did not. `members` are the live members.
//
// A list with the ids of `committed` is accepted. So is the list with which the cluster was
// bootstrapped or with which another initialized member was started; reason then says that
// `committed` is used instead. For any other list Agree returns ErrPeerListsDiffer if the cluster
// still consists of its first members. If members were added or removed since, no list need match:
// `committed` is used, and reason says so.
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
	return fmt.Sprintf("ignoring the list of peers %s, which no other replica started with: the members have changed to %s", peers, committed), nil
}

// sameIDs reports whether both lists have the same ids, whatever the addresses.
func (p Peers) sameIDs(other Peers) bool {
	if len(p) != len(other) {
		return false
	}
	return !slices.ContainsFunc(other, func(peer Peer) bool { _, listed := p.Address(peer.ID); return !listed })
}
