package signal

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// NodeTopic is under what it is gossiped whether nodes are heard.
const NodeTopic = "nodes"

// NodeTable holds the latest word of each node of which there was one.
type NodeTable struct {
	// keep is how long a word counts after it was said: longer than a node may be unheard before
	// the log says that it is lost, and than the clocks of replicas differ.
	keep time.Duration
	// limit bounds the words: of more nodes those are forgotten that were heard of first.
	limit int
	words map[string]*actorpb.NodeWord
	// order lists nodes in the order in which they were first heard of.
	order []string
}

// NewNodeTable returns an empty table.
func NewNodeTable(keep time.Duration, limit int) *NodeTable {
	return &NodeTable{keep: keep, limit: limit, words: map[string]*actorpb.NodeWord{}}
}

// Add implements hearsay.Table: it takes a word and reports whether it is news: that a node is
// unheard, or no longer is. An old word is not news; another replica may still have it.
func (t *NodeTable) Add(now time.Time, word *actorpb.NodeWord) bool {
	id := word.GetNode()
	if id == "" || t.over(now, word) {
		return false
	}
	old, known := t.words[id]
	if known && !succeeds(word, old) {
		return false
	}
	if !known {
		t.order = append(t.order, id)
	}
	t.words[id] = word
	for len(t.words) > t.limit {
		delete(t.words, t.order[0])
		t.order = t.order[1:]
	}
	return word.GetUnheard() != old.GetUnheard()
}

// over reports whether it is time to forget a word.
func (t *NodeTable) over(now time.Time, word *actorpb.NodeWord) bool {
	return !now.Before(word.GetTime().AsTime().Add(t.keep))
}

// succeeds: a word of a node was said after another one.
func succeeds(word, other *actorpb.NodeWord) bool {
	if word.GetTerm() != other.GetTerm() {
		return word.GetTerm() > other.GetTerm()
	}
	return word.GetSequence() > other.GetSequence()
}

// Expire forgets what is old, and returns the nodes that were unheard.
func (t *NodeTable) Expire(now time.Time) (unheard []string) {
	kept := t.order[:0]
	for _, id := range t.order {
		word := t.words[id]
		if !t.over(now, word) {
			kept = append(kept, id)
			continue
		}
		delete(t.words, id)
		if word.GetUnheard() {
			unheard = append(unheard, id)
		}
	}
	t.order = kept
	return unheard
}

// Nodes is what a replica has heard of nodes. It may be read from anywhere; its actor alone
// writes.
type Nodes struct {
	*hearsay.Known[*actorpb.NodeWord, *NodeTable]
}

// NewNodes returns a place for what is heard.
func NewNodes(table *NodeTable, now func() time.Time) *Nodes {
	return &Nodes{hearsay.NewKnown(hearsay.Subject[*actorpb.NodeWord, *NodeTable]{
		Topic: NodeTopic,
		Key:   (*actorpb.NodeWord).GetNode,
		Sign: func(w *actorpb.NodeWord, by hearsay.Speaker, sequence uint64) {
			w.Origin, w.Incarnation, w.Sequence = by.Replica, by.Incarnation, sequence
		},
		All: func(table *NodeTable, now time.Time) proto.Message {
			all := &actorpb.NodeWords{}
			for _, id := range table.order {
				if word := table.words[id]; !table.over(now, word) {
					all.Words = append(all.Words, word)
				}
			}
			return all
		},
		Each: func(all []byte) ([]*actorpb.NodeWord, error) {
			var words actorpb.NodeWords
			err := proto.Unmarshal(all, &words)
			return words.GetWords(), err
		},
	}, table, now)}
}

// Unheard returns whether the agent of a node is not heard, as far as is known here.
func (n *Nodes) Unheard(node string) (unheard bool) {
	n.Read(func(table *NodeTable, _ time.Time) { unheard = table.words[node].GetUnheard() })
	return unheard
}

// AllUnheard returns the nodes whose agents are not heard; nil: there are none.
func (n *Nodes) AllUnheard() (nodes map[string]bool) {
	n.Read(func(table *NodeTable, _ time.Time) {
		for id, word := range table.words {
			if !word.GetUnheard() {
				continue
			}
			if nodes == nil {
				nodes = map[string]bool{}
			}
			nodes[id] = true
		}
	})
	return nodes
}
