package api

import (
	"strings"
	"testing"

	"weir/messages/statepb"
)

// TestNodesOfNoTreeSayWhy shows what a node without a pool tree says of itself.
func TestNodesOfNoTreeSayWhy(t *testing.T) {
	for name, test := range map[string]struct {
		node *statepb.Node
		want []string
	}{
		"a node of a tree":                 {&statepb.Node{Tree: "default"}, nil},
		"a node of a tree, with a caveat":  {&statepb.Node{Tree: "default", Caveat: "no cgroups"}, []string{"no cgroups"}},
		"a node of no tree":                {&statepb.Node{}, []string{"gets no jobs", "nodes_filter"}},
		"a node of no tree, with a caveat": {&statepb.Node{Caveat: "no cgroups"}, []string{"gets no jobs", "no cgroups"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := caveatOf(test.node)
			if len(test.want) == 0 && got != "" {
				t.Errorf("got %q, want nothing", got)
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want it to say %q", got, want)
				}
			}
		})
	}
}
