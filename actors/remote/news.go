package remote

import "sync"

// news calls Config.OnPeer with queued changes, in order and with no lock held,
// in a goroutine that ends when the queue is empty.
type news struct {
	tell func(PeerChange)

	mu      sync.Mutex
	queue   []PeerChange
	telling chan struct{} // Closed when the goroutine ends; nil without one.
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

// wait returns when all queued changes have been reported.
func (n *news) wait() {
	n.mu.Lock()
	telling := n.telling
	n.mu.Unlock()
	if telling != nil {
		<-telling
	}
}
