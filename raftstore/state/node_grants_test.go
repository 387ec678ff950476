package state

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func nodeGrant(pattern string, tags []string, most map[string]int64) *commandpb.EditNodeGrant {
	return &commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: pattern, Tags: tags, Max: most}}
}

func forced(m *commandpb.EditNodeGrant) *commandpb.EditNodeGrant {
	m.Force = true
	return m
}

// TestNodesClaimWhatGrantsGive (T6): without grants everything; with one, only what those give whose pattern
// matches the name.
func TestNodesClaimWhatGrantsGive(t *testing.T) {
	for story, test := range map[string]struct {
		grants []*commandpb.EditNodeGrant
		tags   []string
		want   string
	}{
		"no grant":                {nil, []string{"gpu"}, ""},
		"another pattern":         {[]*commandpb.EditNodeGrant{nodeGrant("cpu-*", []string{"gpu"}, nil)}, nil, "no grant of nodes matches its name: an operator allows it with: weir node allow 'gpu-7'"},
		"its pattern":             {[]*commandpb.EditNodeGrant{nodeGrant("gpu-*", nil, nil)}, nil, ""},
		"its name":                {[]*commandpb.EditNodeGrant{nodeGrant("gpu-7", nil, nil)}, nil, ""},
		"a class":                 {[]*commandpb.EditNodeGrant{nodeGrant("gpu-[1-7]", nil, nil)}, nil, ""},
		"a tag that is not given": {[]*commandpb.EditNodeGrant{nodeGrant("gpu-*", []string{"ssd"}, nil)}, []string{"ssd", "gpu"}, `may not claim the tag "gpu"`},
		"tags add up":             {[]*commandpb.EditNodeGrant{nodeGrant("gpu-*", []string{"ssd"}, nil), nodeGrant("*", []string{"gpu"}, nil)}, []string{"ssd", "gpu"}, ""},
		"within its bounds":       {[]*commandpb.EditNodeGrant{nodeGrant("*", nil, map[string]int64{"user_slots": 4, "cpu": 400, "memory": 4000, "gpu": 0})}, nil, ""},
		"too many cores":          {[]*commandpb.EditNodeGrant{nodeGrant("*", nil, map[string]int64{"cpu": 350})}, nil, "it claims 4 of cpu, but may claim 3.5"},
		"the greatest counts":     {[]*commandpb.EditNodeGrant{nodeGrant("*", nil, map[string]int64{"cpu": 350}), nodeGrant("gpu-*", nil, map[string]int64{"cpu": 400})}, nil, ""},
		"one is without a bound":  {[]*commandpb.EditNodeGrant{nodeGrant("*", nil, map[string]int64{"cpu": 350}), nodeGrant("gpu-*", nil, nil)}, nil, ""},
	} {
		j := newJournal(t)
		for _, grant := range test.grants {
			j.must(grant)
		}
		m := nodeOf("gpu-7", 4)
		m.Node.Tags = test.tags
		result, _ := j.apply(m)
		code, text := result.GetRefusal().GetCode(), result.GetRefusal().GetMessage()
		if test.want == "" && code != "" || test.want != "" && (code != CodeNodeNotGranted || !strings.Contains(text, test.want)) {
			t.Errorf("%s: %s %q, want %q", story, code, text, test.want)
		}
	}
}

// TestGrantsShutNobodyOutByMistake (T6): a change that refuses registered nodes needs force, and tells of each.
func TestGrantsShutNobodyOutByMistake(t *testing.T) {
	j := newJournal(t)
	tagged := nodeOf("a", 4)
	tagged.Node.Tags = []string{"ssd"}
	j.must(tagged, nodeOf("b", 4))
	refuses := func(m *commandpb.EditNodeGrant, code string, words ...string) {
		t.Helper()
		before := contentOf(t, j.state)
		result, _ := j.apply(m)
		r := result.GetRefusal()
		if r.GetCode() != code || slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(r.GetMessage(), word) }) {
			t.Errorf("%v: %s %q, want %s %q", m, r.GetCode(), r.GetMessage(), code, words)
		}
		if string(contentOf(t, j.state)) != string(before) {
			t.Errorf("%v is refused and has changed the state", m)
		}
	}
	refuses(nodeGrant("b", nil, nil), CodeNodesRefused, "1 registered nodes would be refused", "a: no grant of nodes matches", "--force")
	refuses(nodeGrant("*", nil, map[string]int64{"cpu": 1}), CodeNodesRefused, "2 registered nodes", `a: it may not claim the tag "ssd"`, "b: it claims 4 of cpu")
	refuses(nodeGrant("[", nil, nil), CodeInvalidNodeGrant, "the pattern is not valid")
	refuses(nodeGrant("", nil, nil), CodeInvalidNodeGrant)
	refuses(nodeGrant("*", []string{""}, nil), CodeInvalidNodeGrant, "a tag is empty")
	refuses(nodeGrant("*", nil, map[string]int64{"disk": 1}), CodeInvalidNodeGrant, "disk")
	refuses(nodeGrant("*", nil, map[string]int64{"cpu": -1}), CodeInvalidNodeGrant, "negative")
	refuses(&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: "*"}, Disallow: true}, CodeUnknownNodeGrant)

	j.must(nodeGrant("*", []string{"ssd", "gpu", "ssd"}, map[string]int64{"cpu": 400}))
	refuses(&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: "z"}, Disallow: true}, CodeUnknownNodeGrant)
	refuses(nodeGrant("*", nil, nil), CodeNodesRefused, "a: it may not claim")
	events := j.must(forced(nodeGrant("*", nil, nil)))
	if want := []Event{NodeRefused{ID: "a", Reason: `it may not claim the tag "ssd": an operator allows it with: weir node allow 'a' --tags ssd`}}; !slices.Equal(events, want) {
		t.Errorf("%v, want %v", events, want)
	}
	// Who is refused already does not stand in the way.
	j.must(nodeGrant("b", nil, nil))
	restored := RightsIn(mustRestore(t, j.state.Freeze()))
	if refused := restored.RefusedNodes(); len(refused) != 1 || refused[0].ID != "a" || len(restored.NodeGrants()) != 2 {
		t.Errorf("%v, %v", refused, restored.NodeGrants())
	}
	j.must(&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: "*"}, Disallow: true})
	// The last one opens the cluster again.
	j.must(&commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: "b"}, Disallow: true})
	if refused := RightsIn(j.state).RefusedNodes(); len(refused) != 0 {
		t.Errorf("%v", refused)
	}
	many := newJournal(t)
	many.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{ByGrant: 2}})
	for i := range 3 {
		result, _ := many.apply(nodeGrant(fmt.Sprint("n", i), nil, nil))
		if got := result.GetRefusal().GetCode(); got != map[bool]string{true: CodeTooManyGrants}[i == 2] {
			t.Errorf("grant %d: %s", i, got)
		}
	}
}

// TestRefusedNodesAreKept (T6): whatever changes, in whatever order, the nodes kept as refused are those whose
// claims the grants do not give, also after a restore. Grants are asked one by one here.
func TestRefusedNodesAreKept(t *testing.T) {
	refused := func(s *State) (lines []string) {
		for _, n := range s.Nodes() {
			var matching []*statepb.NodeGrant
			for _, g := range RightsIn(s).NodeGrants() {
				if match, _ := path.Match(g.GetPattern(), n.GetId()); match {
					matching = append(matching, g)
				}
			}
			if why := nodeRefusal(len(s.nodeGrants) > 0, matching, n); why != "" {
				lines = append(lines, n.GetId()+": "+why)
			}
		}
		return lines
	}
	rapid.Check(t, func(t *rapid.T) {
		j := newJournal(t)
		tags := rapid.SampledFrom([][]string{nil, {"gpu"}, {"ssd"}, {"gpu", "ssd"}})
		patterns := rapid.SampledFrom([]string{"*", "a*", "?1", "a1", "[ab]2"})
		names := rapid.SampledFrom([]string{"a1", "a2", "b1", "b2", "c3"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var msg proto.Message
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				m := nodeOf(names.Draw(t, "node"), int64(rapid.IntRange(1, 3).Draw(t, "cpu")))
				m.Node.Tags = tags.Draw(t, "tags")
				msg = m
			case 2:
				m := nodeGrant(patterns.Draw(t, "pattern"), tags.Draw(t, "given"), map[string]int64{"cpu": int64(100 * rapid.IntRange(1, 3).Draw(t, "max"))})
				m.Force = rapid.Bool().Draw(t, "force")
				msg = m
			case 3:
				m := &commandpb.EditNodeGrant{Grant: &statepb.NodeGrant{Pattern: patterns.Draw(t, "pattern")}, Disallow: true, Force: rapid.Bool().Draw(t, "force")}
				msg = m
			case 4:
				id := names.Draw(t, "gone")
				j.apply(&commandpb.SetNodeOffline{Node: id, Incarnation: 1})
				msg = &commandpb.RemoveNode{Node: id}
			}
			j.apply(msg)
			want := refused(j.state)
			for _, s := range []*State{j.state, mustRestore(t, j.state.Freeze())} {
				var got []string
				for _, node := range RightsIn(s).RefusedNodes() {
					got = append(got, string(node.ID)+": "+node.Reason)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("after %v: refused %q, want %q", msg, got, want)
				}
			}
		}
	})
}
