package state

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/resource"
)

// The bounds of a grant of nodes.
const (
	maxPatternBytes = 256
	maxGrantTags    = 256
	// refusedTold is how many nodes a refusal names.
	refusedTold = 8
)

// editNodeGrant sets what agents of nodes may claim, or takes it away (T6). A change by which registered
// nodes would be refused needs force.
func (c accessChange) editNodeGrant(m *commandpb.EditNodeGrant) *refusal {
	pattern := m.GetGrant().GetPattern()
	what := fmt.Sprintf("grant of nodes %q", pattern)
	_, known := c.nodeGrants[pattern]
	next := maps.Clone(c.nodeGrants)
	switch limit := int(c.limits.GetByGrant()); {
	case m.GetDisallow() && !known:
		return refuse(CodeUnknownNodeGrant, "%s: there is no such grant: see weir node grants", what)
	case m.GetDisallow():
		delete(next, pattern)
	case !known && limit > 0 && len(next) >= limit:
		return refuse(CodeTooManyGrants, "%s: there are %d grants, the maximum (limit by_grant): use patterns", what, limit)
	default:
		if err := checkNodeGrant(m.GetGrant()); err != nil {
			return refuse(CodeInvalidNodeGrant, "%s: %v", what, err)
		}
		grant := shallow(m.GetGrant())
		grant.Tags, grant.ModifiedTime = inOrder(slices.Clone(grant.GetTags())), c.timestamp()
		next[pattern] = grant
	}
	lost := c.newlyRefused(next)
	if len(lost) > 0 && !m.GetForce() {
		return refuse(CodeNodesRefused, "%s: %s", what, refusedText(lost))
	}
	c.nodeGrants = next
	for _, node := range lost {
		c.emit(node)
	}
	return nil
}

// newlyRefused returns the registered nodes that may claim what they do now, and not with other grants.
func (c accessChange) newlyRefused(next map[string]*statepb.NodeGrant) (lost []NodeRefused) {
	for id, n := range sorted(c.nodes) {
		if why := nodeRefusal(next, n.record); why != "" && nodeRefusal(c.nodeGrants, n.record) == "" {
			lost = append(lost, NodeRefused{ID: id, Reason: why})
		}
	}
	return lost
}

func refusedText(lost []NodeRefused) string {
	var told []string
	for _, node := range lost[:min(len(lost), refusedTold)] {
		told = append(told, fmt.Sprintf("%s: %s", node.ID, node.Reason))
	}
	if more := len(lost) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d registered nodes would be refused: %s: allow them first, or use force (--force) to shut them out", len(lost), strings.Join(told, "; "))
}

// checkNodeGrant returns what is wrong with a grant, or nil.
func checkNodeGrant(g *statepb.NodeGrant) error {
	var b breach
	_, err := path.Match(g.GetPattern(), "")
	b.when(g.GetPattern() == "" || len(g.GetPattern()) > maxPatternBytes, "a pattern has 1 to %d bytes", maxPatternBytes)
	b.when(err != nil, "the pattern is not valid: use * for any text, ? for any character, [a-c] for one of several")
	b.when(len(g.GetTags()) > maxGrantTags, "it has %d tags, the maximum is %d", len(g.GetTags()), maxGrantTags)
	b.when(slices.Contains(g.GetTags(), ""), "a tag is empty")
	for name, most := range sorted(g.GetMax()) {
		_, err := resource.ParseKind(name)
		b.add(err)
		b.when(most < 0, "resource %s: %d is negative", name, most)
	}
	return b.err
}

// NodeGrants returns what agents may claim, by pattern. They must not be changed.
func (r Rights) NodeGrants() []*statepb.NodeGrant {
	return listed(r.nodeGrants, func(g *statepb.NodeGrant) *statepb.NodeGrant { return g })
}

// NodeRefusal says why a node may not claim its tags and resources; "" if it may. Without any grant, each
// node may claim everything.
func (r Rights) NodeRefusal(n *statepb.Node) string { return nodeRefusal(r.nodeGrants, n) }

// nodeRefusal adds up the grants whose pattern matches the node's name: all of their tags, and the
// greatest amount of each resource.
func nodeRefusal(grants map[string]*statepb.NodeGrant, n *statepb.Node) string {
	if len(grants) == 0 {
		return ""
	}
	allow := fmt.Sprintf("an operator allows it with: weir node allow '%s'", n.GetId())
	var matching []*statepb.NodeGrant
	for _, g := range sorted(grants) {
		if match, err := path.Match(g.GetPattern(), n.GetId()); match && err == nil {
			matching = append(matching, g)
		}
	}
	if len(matching) == 0 {
		return "no grant of nodes matches its name: " + allow
	}
	for _, tag := range n.GetTags() {
		if !slices.ContainsFunc(matching, func(g *statepb.NodeGrant) bool { return slices.Contains(g.GetTags(), tag) }) {
			return fmt.Sprintf("it may not claim the tag %q: %s --tags %s", tag, allow, tag)
		}
	}
	has := n.GetResources().Amounts()
	for kind := range resource.Kind(resource.Count) {
		most, bounded := most(matching, kind)
		if bounded && has.Of(kind) > most {
			return fmt.Sprintf("it claims %s of %s, but may claim %s: start it with less, or raise the bound (weir node allow)", kind.Format(has.Of(kind)), kind, kind.Format(most))
		}
	}
	return ""
}

// most returns the greatest amount of a resource that grants give; bounded is false if one of them does not
// bound it.
func most(grants []*statepb.NodeGrant, kind resource.Kind) (amount int64, bounded bool) {
	for _, g := range grants {
		most, is := g.GetMax()[kind.String()]
		if !is {
			return 0, false
		}
		amount = max(amount, most)
	}
	return amount, true
}

// RefusedNodes returns the registered nodes that are refused, with the reason.
func (r Rights) RefusedNodes() (refused []NodeRefused) {
	for id, n := range sorted(r.nodes) {
		if why := r.NodeRefusal(n.record); why != "" {
			refused = append(refused, NodeRefused{ID: id, Reason: why})
		}
	}
	return refused
}
