package signal

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// TellNode announces whether a node is heard.
type TellNode = hearsay.Say[*actorpb.NodeWord]

// Nodes holds the latest word about each node that a replica has heard. It is safe to read from
// any goroutine; only its actor writes.
type Nodes struct {
	*hearsay.Known[*actorpb.NodeWord]
}

// NewNodes returns a Nodes for `limit` words. A word counts for the duration `keep` after it was
// said. `keep` must be longer than the time after which an unheard node is committed as lost, plus
// the difference of the replicas' clocks.
func NewNodes(keep time.Duration, limit int, now func() time.Time) *Nodes {
	return &Nodes{hearsay.NewKnown(hearsay.Subject[*actorpb.NodeWord]{
		Topic: "nodes", Limit: limit,
		Key:   (*actorpb.NodeWord).GetNode,
		Group: func(*actorpb.NodeWord) string { return "" },
		Sign: func(w *actorpb.NodeWord, by hearsay.Speaker, sequence uint64) {
			w.Origin, w.Incarnation, w.Sequence = by.Replica, by.Incarnation, sequence
		},
		Replaces: func(w, earlier *actorpb.NodeWord) bool {
			if w.GetTerm() != earlier.GetTerm() {
				return w.GetTerm() > earlier.GetTerm()
			}
			return w.GetSequence() > earlier.GetSequence()
		},
		News:   func(w, earlier *actorpb.NodeWord) bool { return w.GetUnheard() != earlier.GetUnheard() },
		Forget: func(_ time.Time, w *actorpb.NodeWord) time.Time { return w.GetTime().AsTime().Add(keep) },
		All:    func(all []*actorpb.NodeWord) proto.Message { return &actorpb.NodeWords{Words: all} },
		Each:   hearsay.ListIn((*actorpb.NodeWords).GetWords),
	}, now)}
}

// Unheard returns whether the agent of a node is unheard, as far as this replica knows.
func (n *Nodes) Unheard(node string) bool { return n.Get(node).GetUnheard() }
