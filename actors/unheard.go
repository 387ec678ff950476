package actors

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/node"
	"weir/actors/remote"
	"weir/actors/signal"
	"weir/cluster/identity"
	"weir/messages/actorpb"
	"weir/raftstore/state"
	"weir/scheduling"
)

// parted says that the connection to the agent of a node has broken.
type parted struct{ node string }

// onPeer notifies the leader's actors when the stream of an agent breaks: the agent may be dead.
// An agent that stops says goodbye first, and its jobs keep running.
func (r *Replica) onPeer(change remote.PeerChange) {
	if change.Up || change.Bye || change.Identity.Role != identity.Agent || r.remote.Connected(change.Peer) {
		return
	}
	if leader := r.leader.Load(); leader != nil {
		r.system.Root.Send(leader, parted{change.Identity.Name})
	}
}

// nodeWords implements the Words of nodes in a term.
type nodeWords struct {
	*Replica
	term uint64
}

var _ node.Words = nodeWords{}

// Say implements node.Words.
func (w nodeWords) Say(node string, unheard bool) {
	w.system.Root.Send(w.nodePID, signal.TellNode{Said: &actorpb.NodeWord{Node: node, Term: w.term, Unheard: unheard, Time: timestamppb.New(w.cfg.Clock.Now())}})
}

// Unheard implements node.Words.
func (w nodeWords) Unheard(node string) bool { return w.nodes.Unheard(node) }

// hearNode reports news about a node to the readers of all operations with jobs on it.
func (r *Replica) hearNode(id string) {
	operations := map[string]bool{}
	r.store.View(func(s *state.State) {
		for _, a := range s.AllocationsOfNode(scheduling.NodeID(id)) {
			operations[a.GetOperationId()] = true
		}
	})
	for operation := range operations {
		r.hearWord(operation)
	}
}
