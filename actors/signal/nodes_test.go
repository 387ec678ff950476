package signal

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
)

func nodeWordOf(node string, term, sequence uint64, unheard bool) *actorpb.NodeWord {
	return &actorpb.NodeWord{Node: node, Term: term, Sequence: sequence, Unheard: unheard, Time: timestamppb.New(noon)}
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
	later := nodeWordOf("n3", 1, 9, false)
	later.Time = timestamppb.New(noon.Add(30 * time.Second))
	table.Add(noon.Add(30*time.Second), later)
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

// TestForgottenNodeWordsStayForgotten: replicas forget at different times, and tell each other all
// that they know in between.
func TestForgottenNodeWordsStayForgotten(t *testing.T) {
	clock := noon
	replica := func() *Nodes { return NewNodes(NewNodeTable(time.Minute, 10), func() time.Time { return clock }) }
	here, there := replica(), replica()
	tell := func(from, to *Nodes) (told int) {
		t.Helper()
		var all actorpb.NodeWords
		if err := proto.Unmarshal(from.LocalState(), &all); err != nil {
			t.Fatal(err)
		}
		to.Change(func(table *NodeTable, now time.Time) {
			for _, word := range all.GetWords() {
				table.Add(now, word)
			}
		})
		return len(all.GetWords())
	}
	forget := func(nodes *Nodes) {
		nodes.Change(func(table *NodeTable, now time.Time) { table.Expire(now) })
	}
	here.Change(func(table *NodeTable, now time.Time) { table.Add(now, nodeWordOf("n1", 1, 1, true)) })
	clock = noon.Add(50 * time.Second)
	if told := tell(here, there); told != 1 || !there.Unheard("n1") {
		t.Errorf("told %d words, unheard %t, want one that counts", told, there.Unheard("n1"))
	}
	clock = noon.Add(time.Minute)
	forget(here)
	if told := tell(there, here); told != 0 {
		t.Errorf("after a minute the other still tells of %d", told)
	}
	old := false
	here.Change(func(table *NodeTable, now time.Time) { old = table.Add(now, nodeWordOf("n1", 1, 1, true)) })
	forget(there)
	if old || here.Unheard("n1") || there.Unheard("n1") {
		t.Errorf("an old word is news: %t; unheard here %t, there %t", old, here.Unheard("n1"), there.Unheard("n1"))
	}
}
