package cluster

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"weir/cluster/gossip"
	"weir/messages/versions"
	"weir/scheduling"
)

// Replica is what is known of one replica.
type Replica struct {
	ID scheduling.ReplicaID
	// Address is the host:port at which replicas and agents reach it.
	Address string
	// APIAddress is where clients reach it, "" until it is first seen alive.
	APIAddress string
	// Version is the version of its program, "" until it is first seen alive.
	Version string
	// Can is the highest version of the cluster that its program works with, 0 until it is first seen
	// alive.
	Can uint32
	// Live says that gossip considers it alive.
	Live bool
	// Ready says that it is alive and its state has caught up since it started.
	Ready bool
}

// View is the cluster at one moment. Views are shared: do not change them.
type View struct {
	// Replicas are all known replicas, live or not, sorted by id.
	Replicas []Replica
	// Leader is the leader's id, "" if none is known.
	Leader scheduling.ReplicaID
	// Term is the raft term of Leader; without a leader, the latest that this
	// replica's raft has seen.
	Term uint64
}

// Replica returns what is known of the replica called id.
func (v *View) Replica(id scheduling.ReplicaID) (Replica, bool) {
	i, found := slices.BinarySearchFunc(v.Replicas, id, func(r Replica, id scheduling.ReplicaID) int { return cmp.Compare(r.ID, id) })
	if !found {
		return Replica{}, false
	}
	return v.Replicas[i], true
}

// Ready returns the ids of the replicas that may be given work, sorted.
func (v *View) Ready() []scheduling.ReplicaID {
	var ready []scheduling.ReplicaID
	for _, replica := range v.Replicas {
		if replica.Ready {
			ready = append(ready, replica.ID)
		}
	}
	return ready
}

// Membership is the part of gossip that a Directory uses.
type Membership interface {
	// Subscribe has f called with the live members, now and after changes.
	Subscribe(f func([]gossip.Member)) (cancel func())
}

// Directory joins what gossip and raft know into one View. It is safe for
// concurrent use, and reading it takes no lock.
type Directory struct {
	view        atomic.Pointer[View]
	unsubscribe func()

	mu       sync.Mutex
	known    map[scheduling.ReplicaID]Replica // all heard of that ObserveVoters has not removed
	members  []gossip.Member
	raft     claim // the claim of this replica's raft
	watchers map[uint64]chan *View
	nextID   uint64
}

// claim says that the replica `leader` leads in the term `term`. If `leader` is "", no leader is
// known.
type claim struct {
	leader scheduling.ReplicaID
	term   uint64
}

// NewDirectory returns a Directory that knows peers from the start, and
// follows membership until Close.
func NewDirectory(peers Peers, membership Membership) *Directory {
	d := &Directory{
		known:    make(map[scheduling.ReplicaID]Replica, len(peers)),
		watchers: make(map[uint64]chan *View),
	}
	for _, peer := range peers {
		d.known[peer.ID] = Replica{ID: peer.ID, Address: peer.Address}
	}
	d.view.Store(d.compose())
	d.unsubscribe = membership.Subscribe(d.observeMembers)
	return d
}

// View returns the current view.
func (d *Directory) View() *View { return d.view.Load() }

// ObserveLeader records what this replica's raft reports: that the replica `leader` leads in the
// term `term`. If `leader` is "", no leader is known. A term older than one observed before is
// ignored.
func (d *Directory) ObserveLeader(leader scheduling.ReplicaID, term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if term >= d.raft.term {
		d.raft = claim{leader, term}
		d.publish()
	}
}

// ObserveVoters records the addresses of raft's current configuration, so that
// voters are known even before they are seen alive. Other replicas are
// forgotten unless they are alive.
func (d *Directory) ObserveVoters(voters Peers) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.known {
		if _, votes := voters.Address(id); !votes && !d.lives(id) {
			delete(d.known, id)
		}
	}
	for _, voter := range voters {
		replica := d.known[voter.ID]
		replica.ID = voter.ID
		if !d.lives(voter.ID) { // A live replica announces its own address.
			replica.Address = voter.Address
		}
		d.known[voter.ID] = replica
	}
	d.publish()
}

// Watch returns a channel that holds the latest View that was not yet
// received from it: the current one first, then one after each change. A slow
// receiver misses views, but never the last. cancel closes the channel, as Close does.
func (d *Directory) Watch() (views <-chan *View, cancel func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	watcher := make(chan *View, 1)
	watcher <- d.view.Load()
	if d.watchers == nil {
		close(watcher)
		return watcher, func() {}
	}
	id := d.nextID
	d.nextID++
	d.watchers[id] = watcher
	return watcher, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if _, watching := d.watchers[id]; watching {
			delete(d.watchers, id)
			close(watcher)
		}
	}
}

// Close stops following the membership and closes the channels of Watch. The
// last View stays readable.
func (d *Directory) Close() {
	d.unsubscribe()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, watcher := range d.watchers {
		close(watcher)
	}
	d.watchers = nil
}

func (d *Directory) observeMembers(members []gossip.Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.members = members
	for _, member := range members {
		d.known[member.ID] = Replica{
			ID:         member.ID,
			Address:    member.Address,
			APIAddress: member.APIAddress,
			Version:    member.Version,
			Can:        uint32(min(max(member.Can, versions.Oldest), math.MaxUint32)),
		}
	}
	d.publish()
}

// state returns whether gossip considers id alive, and whether that replica has
// announced that it is ready. d.mu is held.
func (d *Directory) state(id scheduling.ReplicaID) (live, ready bool) {
	i := slices.IndexFunc(d.members, func(m gossip.Member) bool { return m.ID == id })
	return i >= 0, i >= 0 && d.members[i].Ready
}

// lives returns whether gossip considers id alive. d.mu is held.
func (d *Directory) lives(id scheduling.ReplicaID) bool {
	live, _ := d.state(id)
	return live
}

// publish makes the view current, if it has changed. d.mu is held.
func (d *Directory) publish() {
	view := d.compose()
	if view.equal(d.view.Load()) {
		return
	}
	d.view.Store(view)
	for _, watcher := range d.watchers {
		select {
		case <-watcher: // Drop the older view. Only publish sends, so there is room now.
		default:
		}
		watcher <- view
	}
}

// compose builds the view. d.mu is held.
func (d *Directory) compose() *View {
	view := &View{Replicas: slices.SortedFunc(maps.Values(d.known), func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) })}
	for i := range view.Replicas {
		replica := &view.Replicas[i]
		replica.Live, replica.Ready = d.state(replica.ID)
	}
	latest := latestClaim(d.raft, d.members)
	view.Leader, view.Term = latest.leader, latest.term
	return view
}

// latestClaim returns the claim of the highest term. Within a term raft takes
// precedence over gossip, unless it knows no leader.
func latestClaim(raft claim, members []gossip.Member) claim {
	latest := raft
	for _, member := range members {
		if !member.Leader {
			continue // Only our own raft may report a term without a leader.
		}
		if member.Term > latest.term || member.Term == latest.term && latest.leader == "" {
			latest = claim{member.ID, member.Term}
		}
	}
	return latest
}

func (v *View) equal(other *View) bool {
	return v.Leader == other.Leader && v.Term == other.Term && slices.Equal(v.Replicas, other.Replicas)
}
