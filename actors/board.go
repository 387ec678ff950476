package actors

import (
	"sync"

	"weir/messages/actorpb"
)

// board holds the last state that each node has reported. The node actors write it; any goroutine
// may read it.
type board struct {
	mu    sync.RWMutex
	nodes map[string]posted
}

type posted struct {
	view *actorpb.NodeView
	held []*actorpb.HeldJob
}

func newBoard() *board { return &board{nodes: map[string]posted{}} }

// Publish implements the Board of nodes.
func (b *board) Publish(node string, view *actorpb.NodeView, held []*actorpb.HeldJob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if view == nil {
		delete(b.nodes, node)
		return
	}
	b.nodes[node] = posted{view, held}
}

func (b *board) node(id string) (*actorpb.NodeView, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	p, ok := b.nodes[id]
	return p.view, ok
}

// credentials returns what the agents of nodes hold, by node, as far as they have told this replica
// as their leader.
func (b *board) credentials() map[string]*actorpb.HeldCredentials {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make(map[string]*actorpb.HeldCredentials, len(b.nodes))
	for node, p := range b.nodes {
		if held := p.view.GetCredentials(); held != nil {
			all[node] = held
		}
	}
	return all
}

// job returns the last report of a node about a job, or nil.
func (b *board) job(node, id string) *actorpb.HeldJob {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, held := range b.nodes[node].held {
		if held.GetJobId() == id {
			return held
		}
	}
	return nil
}
