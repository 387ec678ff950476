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
	nodes := NewNodes(time.Minute, 10, at(noon))
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
		news := nodes.Add(step.word)
		if news != step.wantNews {
			t.Errorf("%s: news %t, want %t", step.story, news, step.wantNews)
		}
		id := step.word.GetNode()
		if nodes.Unheard(id) != step.unheard {
			t.Errorf("%s: unheard %t, want %t", step.story, nodes.Unheard(id), step.unheard)
		}
	}
	var all actorpb.NodeWords
	if err := proto.Unmarshal(nodes.LocalState(), &all); err != nil || len(all.GetWords()) != 2 || all.GetWords()[0].GetTerm() != 3 {
		t.Errorf("one that joins is told %v, %v, want the latest words of two nodes", &all, err)
	}
}

func TestNodeWordsAreForgotten(t *testing.T) {
	now := noon
	nodes := NewNodes(time.Minute, 2, func() time.Time { return now })
	kept := func() (ids []string) {
		for _, word := range nodes.All() {
			ids = append(ids, word.GetNode())
		}
		return ids
	}
	for sequence, node := range []string{"n1", "n2", "n3"} {
		nodes.Add(nodeWordOf(node, 1, uint64(sequence), true))
	}
	now = noon.Add(30 * time.Second)
	later := nodeWordOf("n3", 1, 9, false)
	later.Time = timestamppb.New(now)
	nodes.Add(later)
	if got := kept(); !slices.Equal(got, []string{"n2", "n3"}) {
		t.Errorf("words of %v are kept, want those of the two that came last", got)
	}
	now = noon.Add(time.Minute)
	if got := nodes.Expire(); len(got) != 1 || got[0].GetNode() != "n2" || len(kept()) != 1 {
		t.Errorf("after a minute: %v were unheard, %v are left, want n2 and one", got, kept())
	}
	now = noon.Add(2 * time.Minute)
	if got := nodes.Expire(); len(got)+len(kept())+len(nodes.Of("")) != 0 {
		t.Errorf("after two minutes: %v were unheard, %v are left", got, kept())
	}
}

// TestForgottenNodeWordsStayForgotten: replicas forget at different times, and tell each other all
// that they know in between.
func TestForgottenNodeWordsStayForgotten(t *testing.T) {
	clock := noon
	replica := func() *Nodes { return NewNodes(time.Minute, 10, func() time.Time { return clock }) }
	here, there := replica(), replica()
	tell := func(from, to *Nodes) (told int) {
		t.Helper()
		var all actorpb.NodeWords
		if err := proto.Unmarshal(from.LocalState(), &all); err != nil {
			t.Fatal(err)
		}
		for _, word := range all.GetWords() {
			to.Add(word)
		}
		return len(all.GetWords())
	}
	here.Add(nodeWordOf("n1", 1, 1, true))
	clock = noon.Add(50 * time.Second)
	if told := tell(here, there); told != 1 || !there.Unheard("n1") {
		t.Errorf("told %d words, unheard %t, want one that counts", told, there.Unheard("n1"))
	}
	clock = noon.Add(time.Minute)
	here.Expire()
	if told := tell(there, here); told != 0 {
		t.Errorf("after a minute the other still tells of %d", told)
	}
	old := here.Add(nodeWordOf("n1", 1, 1, true))
	there.Expire()
	if old || here.Unheard("n1") || there.Unheard("n1") {
		t.Errorf("an old word is news: %t; unheard here %t, there %t", old, here.Unheard("n1"), there.Unheard("n1"))
	}
}
