package signal

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

func nodeWordOf(node string, term, sequence uint64, unheard bool) *actorpb.NodeWord {
	return &actorpb.NodeWord{Node: node, Term: term, Sequence: sequence, Unheard: unheard}
}

func TestNodeTable(t *testing.T) {
	nodes := NewNodes(NewNodeTable(time.Minute, 10), func() time.Time { return noon })
	for _, step := range []struct {
		story             string
		word              *actorpb.NodeWord
		wantNews, unheard bool
	}{
		{"that a node is heard of which nothing was said is no news", nodeWordOf("n1", 2, 1, false), false, false},
		{"that it is not is news", nodeWordOf("n1", 2, 2, true), true, true},
		{"the same again is not", nodeWordOf("n1", 2, 3, true), false, true},
		{"what was overtaken does not count", nodeWordOf("n1", 2, 2, false), false, true},
		{"that it is heard again is news", nodeWordOf("n1", 2, 4, false), true, false},
		{"a later leader's word counts more", nodeWordOf("n1", 3, 1, true), true, true},
		{"an earlier leader's comes too late", nodeWordOf("n1", 2, 9, false), false, true},
		{"another node has its own", nodeWordOf("n2", 2, 1, true), true, true},
		{"a word about no node is dropped", nodeWordOf("", 2, 1, true), false, false},
	} {
		news := false
		nodes.Change(func(table *NodeTable, now time.Time) { news = table.Add(now, step.word) })
		if news != step.wantNews {
			t.Errorf("%s: news %t, want %t", step.story, news, step.wantNews)
		}
		id := step.word.GetNode()
		if nodes.Unheard(id) != step.unheard || nodes.AllUnheard()[id] != step.unheard {
			t.Errorf("%s: unheard %t and %v, want %t", step.story, nodes.Unheard(id), nodes.AllUnheard(), step.unheard)
		}
	}
	var all actorpb.NodeWords
	if err := proto.Unmarshal(nodes.LocalState(), &all); err != nil || len(all.GetWords()) != 2 || all.GetWords()[0].GetTerm() != 3 {
		t.Errorf("one that joins is told %v, %v, want the latest words of two nodes", &all, err)
	}
}

func TestNodeWordsAreForgotten(t *testing.T) {
	table := NewNodeTable(time.Minute, 2)
	for sequence, node := range []string{"n1", "n2", "n3"} {
		table.Add(noon, nodeWordOf(node, 1, uint64(sequence), true))
	}
	table.Add(noon.Add(30*time.Second), nodeWordOf("n3", 1, 9, false))
	if !slices.Equal(table.order, []string{"n2", "n3"}) || len(table.words) != 2 {
		t.Errorf("words of %v are kept, want those of the two that came last", table.order)
	}
	if got := table.Expire(noon.Add(time.Minute)); !slices.Equal(got, []string{"n2"}) || len(table.words) != 1 {
		t.Errorf("after a minute: %v were unheard, %d words are left, want n2 and one", got, len(table.words))
	}
	if got := table.Expire(noon.Add(2 * time.Minute)); len(got)+len(table.words)+len(table.order) != 0 {
		t.Errorf("after two minutes: %v were unheard, %v are left", got, table.order)
	}
}
