package actors

import (
	"sync"
	"time"

	"weir/cluster"
	"weir/scheduling"
)

// liveness knows since when replicas have been gone, and who should control an
// operation.
type liveness struct {
	mu   sync.RWMutex
	live []scheduling.ReplicaID
	gone map[string]time.Time
}

func newLiveness() *liveness { return &liveness{gone: map[string]time.Time{}} }

// observe takes a view of the cluster, and reports whether a replica came or went.
func (l *liveness) observe(now time.Time, view *cluster.View) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.gone)
	l.live = view.Live()
	for _, replica := range view.Replicas {
		id := string(replica.ID)
		_, gone := l.gone[id]
		switch {
		case replica.Live && gone:
			delete(l.gone, id)
			changed = true
		case !replica.Live && !gone:
			l.gone[id] = now
			changed = true
		}
	}
	return changed || before != len(l.gone)
}

// Choose implements the Replicas of operations: rendezvous hashing over those
// that live.
func (l *liveness) Choose(operationID string) (replica string, ok bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	chosen := cluster.Assign(operationID, l.live)
	return string(chosen), chosen != ""
}

// GoneSince implements the Replicas of operations. A replica that nobody knows
// counts as alive: it may not have been seen yet.
func (l *liveness) GoneSince(replica string) time.Time {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.gone[replica]
}
