package remote

import "sync"

// news tells of peers that come and go, in order, outside of every lock, from
// a goroutine that lasts while there is something to tell.
type news struct {
	tell func(PeerChange)

	mu      sync.Mutex
	queue   []PeerChange
	telling chan struct{} // Closed when the teller ends; nil without one.
}

func (n *news) add(change PeerChange) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, change)
	if n.telling == nil {
		n.telling = make(chan struct{})
		go n.run(n.telling)
	}
}

func (n *news) run(done chan struct{}) {
	defer close(done)
	for {
		n.mu.Lock()
		changes := n.queue
		n.queue = nil
		if len(changes) == 0 {
			n.telling = nil
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		for _, change := range changes {
			n.tell(change)
		}
	}
}

// wait returns when all has been told.
func (n *news) wait() {
	n.mu.Lock()
	telling := n.telling
	n.mu.Unlock()
	if telling != nil {
		<-telling
	}
}
