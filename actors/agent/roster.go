package agent

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"weir/messages/actorpb"
)

// Replica is the name and the address of a replica of the control plane.
type Replica struct {
	// ID is the replica's name in the cluster and in its certificate.
	ID string `json:"id"`
	// Address is host:port.
	Address string `json:"address"`
}

// String returns the replica as ParseReplica reads it.
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

// maxReplicas bounds the replicas that an agent remembers; clusters have at most 5.
const maxReplicas = 32

// Roster holds the replicas that an agent knows, ordered by id.
type Roster struct {
	seeds, known []Replica
}

// NewRoster returns a roster of the configured replicas and those that an earlier agent process
// saved. Configured addresses take precedence.
func NewRoster(seeds, remembered []Replica) *Roster {
	r := &Roster{seeds: seeds}
	r.set(slices.Concat(seeds, remembered))
	return r
}

// Learn replaces the known replicas by those that a replica has listed and the configured ones, and
// reports whether that changed anything. A replica listed without an address keeps its known
// address.
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

// set replaces the known replicas. Of several with one id, the first counts.
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
