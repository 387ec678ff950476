package actors

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
)

// board holds the last state that each node has reported, and the latest agents that were refused. The node
// actors write it; any goroutine may read it.
type board struct {
	mu    sync.RWMutex
	nodes map[string]posted
	// refused are those refused last, by node, the latest last; maxRefused of them.
	refused []*actorpb.RefusedAgent
}

// maxRefused bounds the agents that are remembered as refused, and maxRefusedBytes the host and all tags of one.
const (
	maxRefused      = 100
	maxRefusedBytes = 16 << 10
)

// Refuse implements the Board of nodes.
func (b *board) Refuse(agent *actorpb.RefusedAgent) {
	left := maxRefusedBytes - len(agent.GetHost())
	for i, tag := range agent.GetTags() {
		if left -= len(tag); left < 0 {
			agent.Tags = agent.GetTags()[:i]
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = slices.DeleteFunc(b.refused, func(r *actorpb.RefusedAgent) bool { return r.GetNode() == agent.GetNode() })
	b.refused = append(b.refused, agent)
	b.refused = slices.Delete(b.refused, 0, max(0, len(b.refused)-maxRefused))
}

// refusedAgents returns the agents that were refused, by node.
func (b *board) refusedAgents() []*actorpb.RefusedAgent {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.SortedFunc(slices.Values(b.refused), func(x, y *actorpb.RefusedAgent) int { return cmp.Compare(x.GetNode(), y.GetNode()) })
}

// posted is what is known of a node. view is nil if nothing was published but when it was heard.
type posted struct {
	view *actorpb.NodeView
	held []*actorpb.HeldJob
	// heard is when its agent was heard last, zero if it was not, and expires is when its lease ends.
	heard, expires time.Time
}

// lastHeartbeat returns when the agent was heard last; nil if it was not.
func (p posted) lastHeartbeat() *timestamppb.Timestamp {
	if p.heard.IsZero() {
		return nil
	}
	return timestamppb.New(p.heard)
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
	p := b.nodes[node]
	p.view, p.held = view, held
	b.nodes[node] = p
}

// Heard implements the Board of nodes.
func (b *board) Heard(node string, at, expires time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.nodes[node]
	p.heard, p.expires = at, expires
	b.nodes[node] = p
}

func (b *board) node(id string) (posted, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	p, ok := b.nodes[id]
	return p, ok
}

// reports returns what some nodes have reported last.
func (b *board) reports(names []string) (all []*actorpb.NodeView) {
	for _, name := range names {
		if n, ok := b.node(name); ok {
			all = append(all, &actorpb.NodeView{Id: name, LastHeartbeat: n.lastHeartbeat(), MemoryUsed: n.view.GetMemoryUsed(), Files: n.view.GetFiles()})
		}
	}
	return all
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

// agents returns what the programs of registered agents can, by node.
func (b *board) agents() (all []*actorpb.AgentProgram) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for node, p := range b.nodes {
		if can := p.view.GetCan(); can > 0 {
			all = append(all, &actorpb.AgentProgram{Node: node, Can: can})
		}
	}
	slices.SortFunc(all, func(x, y *actorpb.AgentProgram) int { return cmp.Compare(x.GetNode(), y.GetNode()) })
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
