package agent

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"weir/messages/actorpb"
)

// Replica is where a replica of the control plane is reached.
type Replica struct {
	// ID is the replica's name in the cluster and in its certificate.
	ID string `json:"id"`
	// Address is host:port.
	Address string `json:"address"`
}

// String returns the replica as ParseReplica takes it.
func (r Replica) String() string { return r.ID + "=" + r.Address }

// ParseReplica reads a replica from id=host:port.
func ParseReplica(text string) (Replica, error) {
	id, address, ok := strings.Cut(text, "=")
	if !ok || id == "" {
		return Replica{}, fmt.Errorf("replica %q: must be id=host:port, such as r1=10.0.0.1:7440", text)
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return Replica{}, fmt.Errorf("replica %q: %q must be host:port", text, address)
	}
	return Replica{ID: id, Address: address}, nil
}

// maxReplicas bounds what an agent remembers; clusters have 5 replicas at most.
const maxReplicas = 32

// Roster is the replicas that an agent knows, in order of their ids.
type Roster struct {
	seeds, known []Replica
}

// NewRoster returns a roster of the configured replicas and of those that an
// earlier life of the agent remembers. What is configured counts.
func NewRoster(seeds, remembered []Replica) *Roster {
	r := &Roster{seeds: seeds}
	r.set(slices.Concat(seeds, remembered))
	return r
}

// Learn takes the replicas that one of them has told of, and reports whether that
// changed anything. It forgets the others but the configured ones. A replica
// without an address keeps the one that is known.
func (r *Roster) Learn(told []*actorpb.Replica) bool {
	var all []Replica
	for _, t := range told {
		known := Replica{ID: t.GetId(), Address: t.GetAddress()}
		if known.Address == "" {
			known.Address = r.Find(known.ID).Address
		}
		all = append(all, known)
	}
	if len(all) == 0 {
		return false
	}
	before := r.known
	r.set(append(all, r.seeds...))
	return !slices.Equal(before, r.known)
}

// set takes the first of those that have the same id.
func (r *Roster) set(all []Replica) {
	var known []Replica
	for _, replica := range all {
		same := func(other Replica) bool { return other.ID == replica.ID }
		if replica.ID == "" || replica.Address == "" || len(known) == maxReplicas || slices.ContainsFunc(known, same) {
			continue
		}
		known = append(known, replica)
	}
	slices.SortFunc(known, func(a, b Replica) int { return strings.Compare(a.ID, b.ID) })
	r.known = known
}

// All returns the replicas. The slice is never changed.
func (r *Roster) All() []Replica { return r.known }

// Find returns the replica with this id; its address is empty when it is not
// known.
func (r *Roster) Find(id string) Replica {
	if i := r.index(id); i >= 0 {
		return r.known[i]
	}
	return Replica{ID: id}
}

func (r *Roster) index(id string) int {
	return slices.IndexFunc(r.known, func(known Replica) bool { return known.ID == id })
}
