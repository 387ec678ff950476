package actors

import (
	"sync"

	"weir/cluster/gossip"
	"weir/scheduling"
)

// roll has the replicas that gossip has shown and no test has crashed: one that is slow to
// answer is not taken for dead.
type roll struct {
	of *gossip.Gossip

	mu      sync.Mutex
	seen    map[scheduling.ReplicaID]gossip.Member
	crashed map[scheduling.ReplicaID]bool
	tell    func([]gossip.Member)
}

// Subscribe implements cluster.Membership, for one directory.
func (r *roll) Subscribe(f func([]gossip.Member)) (cancel func()) {
	r.mu.Lock()
	r.tell = f
	r.mu.Unlock()
	return r.of.Subscribe(func(live []gossip.Member) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, member := range live {
			r.seen[member.ID] = member
		}
		r.show()
	})
}

// strike takes a replica for dead.
func (r *roll) strike(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crashed[scheduling.ReplicaID(id)] = true
	r.show()
}

// show tells who is alive. r.mu is held.
func (r *roll) show() {
	var alive []gossip.Member
	for id, member := range r.seen {
		if !r.crashed[id] {
			alive = append(alive, member)
		}
	}
	r.tell(alive)
}
