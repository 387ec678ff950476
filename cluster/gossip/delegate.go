package gossip

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"weir/scheduling"
)

// delegate has the callbacks of memberlist. They are called with memberlist's
// locks held, so they do not block or call memberlist.
type delegate struct {
	gossip *Gossip
	meta   atomic.Pointer[[]byte] // our own Member, encoded
}

var (
	_ memberlist.Delegate         = (*delegate)(nil)
	_ memberlist.EventDelegate    = (*delegate)(nil)
	_ memberlist.AliveDelegate    = (*delegate)(nil)
	_ memberlist.ConflictDelegate = (*delegate)(nil)
)

// NodeMeta implements memberlist.Delegate. encodeMember has enforced the limit.
func (d *delegate) NodeMeta(int) []byte { return *d.meta.Load() }

// NotifyMsg implements memberlist.Delegate.
func (d *delegate) NotifyMsg(data []byte) { d.gossip.messenger.receive(data) }

// GetBroadcasts implements memberlist.Delegate.
func (d *delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.gossip.messenger.queue.GetBroadcasts(overhead, limit)
}

// LocalState implements memberlist.Delegate.
func (d *delegate) LocalState(bool) []byte { return d.gossip.messenger.localState() }

// MergeRemoteState implements memberlist.Delegate.
func (d *delegate) MergeRemoteState(data []byte, _ bool) { d.gossip.messenger.mergeState(data) }

// NotifyAlive implements memberlist.AliveDelegate: it rejects members whose
// facts cannot be decoded, and replicas that are not members of the cluster.
func (d *delegate) NotifyAlive(node *memberlist.Node) error {
	if _, err := entryOf(node); err != nil || node.Name == string(d.gossip.self) {
		return err
	}
	return d.gossip.config.Accepts(node.Name)
}

// NotifyJoin implements memberlist.EventDelegate.
func (d *delegate) NotifyJoin(node *memberlist.Node) {
	if d.put(node) && node.Name != string(d.gossip.self) {
		d.gossip.log.Info("replica joined", "replica", node.Name, "address", node.Address())
	}
}

// NotifyUpdate implements memberlist.EventDelegate.
func (d *delegate) NotifyUpdate(node *memberlist.Node) { d.put(node) }

// NotifyLeave implements memberlist.EventDelegate.
func (d *delegate) NotifyLeave(node *memberlist.Node) {
	d.gossip.roster.remove(scheduling.ReplicaID(node.Name))
	why := "not responding"
	if node.State == memberlist.StateLeft {
		why = "left"
	}
	d.gossip.log.Info("replica gone", "replica", node.Name, "reason", why)
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == string(d.gossip.self) {
		d.gossip.notice(other)
	}
	d.gossip.log.Error("two replicas have the same id; give each its own", "replica", existing.Name, "known_at", existing.Address(), "also_at", other.Address())
}

func (d *delegate) put(node *memberlist.Node) bool {
	entry, err := entryOf(node)
	if err != nil {
		d.gossip.log.Warn("gossip member unreadable", "replica", node.Name, "cause", err)
		return false
	}
	d.gossip.roster.put(entry)
	return true
}

func entryOf(node *memberlist.Node) (rosterEntry, error) {
	member, err := decodeMember(node.Meta)
	if err != nil {
		return rosterEntry{}, err
	}
	if string(member.ID) != node.Name {
		return rosterEntry{}, fmt.Errorf("member %q says that it is %q", node.Name, member.ID)
	}
	ip, ok := netip.AddrFromSlice(node.Addr)
	if !ok {
		return rosterEntry{}, fmt.Errorf("member %q: malformed address %v", node.Name, node.Addr)
	}
	return rosterEntry{member: member, endpoint: netip.AddrPortFrom(ip.Unmap(), node.Port)}, nil
}
