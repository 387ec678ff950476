package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// TestRefusedAgentsAreBounded (T6): the leader remembers the last agents that were refused, each once, in what fits an answer.
func TestRefusedAgentsAreBounded(t *testing.T) {
	b := newBoard()
	tag := strings.Repeat("x", 5<<10)
	for i := range 300 {
		b.Refuse(&actorpb.RefusedAgent{Node: fmt.Sprintf("n%03d", i), Tags: []string{tag, tag, tag, tag}})
	}
	b.Refuse(&actorpb.RefusedAgent{Node: "n200", Tags: []string{"last"}})
	all := b.refusedAgents()
	if len(all) != maxRefused || all[0].GetNode() != "n200" || all[maxRefused-1].GetNode() != "n299" {
		t.Fatalf("%d agents, from %s: the last %d are kept, by node", len(all), all[0].GetNode(), maxRefused)
	}
	if got := all[0].GetTags(); len(got) != 1 || got[0] != "last" {
		t.Errorf("the last claim of n200 counts, not %d tags", len(got))
	}
	if size := proto.Size(&actorpb.SchedulerView{Refused: all}); size > viewBytes {
		t.Errorf("they take %d bytes, more than the %d of an answer", size, viewBytes)
	}
}

// TestViewsTravelInParts (T4) is a property: whatever is in a view, its parts together are the view,
// each element and node once, and no part is larger than the limit unless one element is.
func TestViewsTravelInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		view := &actorpb.SchedulerView{Term: 7}
		largest := 0
		for i := range rapid.IntRange(0, 30).Draw(t, "elements") {
			e := &actorpb.ElementView{
				Tree: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tree"), Id: fmt.Sprint("e", i), Pool: rapid.Bool().Draw(t, "pool"),
				Alerts: []string{string(make([]byte, rapid.IntRange(0, 300).Draw(t, "bytes")))},
			}
			view.Elements, largest = append(view.Elements, e), max(largest, proto.Size(e))
		}
		for i := range rapid.IntRange(0, 30).Draw(t, "nodes") {
			n := &actorpb.NodeView{Id: fmt.Sprint("n", i)}
			view.Nodes, largest = append(view.Nodes, n), max(largest, proto.Size(n))
		}
		limit := rapid.IntRange(1, 2000).Draw(t, "limit")
		if whole := partOf(view, "", 1<<20); whole != view {
			t.Fatal("a small view is cut")
		}
		var elements, nodes []string
		after, parts := "", 0
		for first := true; first || after != ""; first = false {
			part := partOf(view, after, limit)
			content := &actorpb.SchedulerView{Elements: part.GetElements(), Nodes: part.GetNodes()}
			// Each message in the list takes some bytes more.
			if size := proto.Size(content) - 3*(len(part.GetElements())+len(part.GetNodes())); size > max(limit, largest) {
				t.Fatalf("a part has %d bytes, the limit is %d", size, limit)
			}
			for _, e := range part.GetElements() {
				elements = append(elements, e.GetTree()+e.GetId())
			}
			for _, n := range part.GetNodes() {
				nodes = append(nodes, n.GetId())
			}
			if after = part.GetNext(); part.GetTerm() != 7 {
				t.Fatalf("a part of term %d", part.GetTerm())
			}
			if parts++; parts > 100 {
				t.Fatal("there is no last part")
			}
		}
		want := func(names []string) []string { return slices.Sorted(slices.Values(names)) }
		var allElements, allNodes []string
		for _, e := range view.GetElements() {
			allElements = append(allElements, e.GetTree()+e.GetId())
		}
		for _, n := range view.GetNodes() {
			allNodes = append(allNodes, n.GetId())
		}
		if !slices.Equal(want(elements), want(allElements)) || !slices.Equal(want(nodes), want(allNodes)) {
			t.Fatalf("got %v and %v, want %v and %v", elements, nodes, allElements, allNodes)
		}
	})
}

// TestReportsOfNodes wants the leader to answer for the nodes that are asked for alone, without its schedulers, and a view
// without nodes to have all else.
func TestReportsOfNodes(t *testing.T) {
	r := &Replica{board: newBoard()}
	for _, id := range []string{"n1", "n2", "n3"} {
		r.board.Publish(id, &actorpb.NodeView{MemoryUsed: 5, Files: &actorpb.FileCache{Files: 3}, Jobs: 7}, nil)
	}
	got := desk{r}.schedulerView(t.Context(), nil, &actorpb.SchedulerViewRequest{Reports: []string{"n3", "gone", "n1"}})
	want := &actorpb.SchedulerView{Nodes: []*actorpb.NodeView{
		{Id: "n3", MemoryUsed: 5, Files: &actorpb.FileCache{Files: 3}}, {Id: "n1", MemoryUsed: 5, Files: &actorpb.FileCache{Files: 3}},
	}}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	view := &actorpb.SchedulerView{Term: 3, Elements: []*actorpb.ElementView{{Id: "a"}}, Nodes: want.Nodes, Total: &statepb.Resources{UserSlots: 1}}
	whole := proto.CloneOf(view)
	without := proto.CloneOf(view)
	without.Nodes = nil
	if got := withoutNodes(view); !proto.Equal(got, without) || !proto.Equal(view, whole) {
		t.Errorf("got %v of %v", got, view)
	}
}
