package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"weir/scheduling"
)

// maxPeers bounds the initial voters: more than seven slow every commit down
// and hardly make the cluster safer.
const maxPeers = 7

// Peer is a replica of the list that a cluster begins with.
type Peer struct {
	ID scheduling.ReplicaID
	// Address is the host:port at which other replicas reach it.
	Address string
}

// Peers is the list of replicas that a cluster begins with, sorted by id.
type Peers []Peer

// ParsePeers parses a list of entries id=host:port, in any order.
func ParsePeers(entries []string) (Peers, error) {
	peers := make(Peers, 0, len(entries))
	for _, entry := range entries {
		text := strings.TrimSpace(entry)
		id, address, ok := strings.Cut(text, "=")
		if !ok || id == "" || strings.ContainsAny(text, ", \t\r\n") {
			return nil, fmt.Errorf("peer %q: want id=host:port", entry)
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("peer %q: %w: want id=host:port", entry, err)
		}
		if host == "" || port == "" || port == "0" {
			return nil, fmt.Errorf("peer %q: host and port must be reachable by others", entry)
		}
		peers = append(peers, Peer{ID: scheduling.ReplicaID(id), Address: address})
	}
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(string(a.ID), string(b.ID)) })
	if err := peers.validate(); err != nil {
		return nil, err
	}
	return peers, nil
}

func (p Peers) validate() error {
	if len(p) > maxPeers {
		return fmt.Errorf("peers: %d given: at most %d can vote", len(p), maxPeers)
	}
	owners := make(map[string]scheduling.ReplicaID, len(p))
	for i, peer := range p {
		if i > 0 && peer.ID == p[i-1].ID {
			return fmt.Errorf("peers: id %s is listed twice, at %s and at %s", peer.ID, p[i-1].Address, peer.Address)
		}
		if other, taken := owners[peer.Address]; taken {
			return fmt.Errorf("peers: address %s is listed twice, for %s and for %s", peer.Address, other, peer.ID)
		}
		owners[peer.Address] = peer.ID
	}
	return nil
}

// Address returns the address of the peer called id.
func (p Peers) Address(id scheduling.ReplicaID) (string, bool) {
	for _, peer := range p {
		if peer.ID == id {
			return peer.Address, true
		}
	}
	return "", false
}

// Addresses returns all addresses, for gossip to join.
func (p Peers) Addresses() []string {
	addresses := make([]string, 0, len(p))
	for _, peer := range p {
		addresses = append(addresses, peer.Address)
	}
	return addresses
}

// String returns the entries as ParsePeers reads them, separated by commas.
func (p Peers) String() string {
	entries := make([]string, 0, len(p))
	for _, peer := range p {
		entries = append(entries, string(peer.ID)+"="+peer.Address)
	}
	return strings.Join(entries, ",")
}

// Fingerprint returns 16 hexadecimal digits of a hash of the list, "" for the
// empty list. Replicas announce theirs by gossip.
func (p Peers) Fingerprint() string {
	if len(p) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:8])
}

// ErrPeerListsDiffer is returned when replicas of one cluster were started
// with different lists of peers.
var ErrPeerListsDiffer = errors.New("lists of peers differ")
