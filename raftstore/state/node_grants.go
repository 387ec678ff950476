package state

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling"
	"weir/scheduling/resource"
)

// The bounds of a grant of nodes.
const (
	maxPatternBytes = 256
	maxGrantTags    = 256
	// refusedTold is how many nodes a refusal names.
	refusedTold = 8
)

// claimant is what grants say about a node: those whose pattern matches its name, and why it may not claim
// what it does; empty if it may. Both are kept, because all nodes by all grants are many.
type claimant struct {
	// matching is in no order: the sum of grants has none.
	matching []*statepb.NodeGrant
	refusal  string
}

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
	changed, lost := c.claimants(pattern, next)
	if len(lost) > 0 && !m.GetForce() {
		return refuse(CodeNodesRefused, "%s: %s", what, refusedText(lost))
	}
	c.nodeGrants = next
	for n, claims := range changed {
		setClaimant(c.State, n, claims)
	}
	for _, node := range lost {
		c.emit(node)
	}
	return nil
}

// claimants returns what the grants next, in which that of one pattern has changed, say about the
// registered nodes that it matters to; and those of them that may claim what they do now, and not then.
func (c accessChange) claimants(pattern string, next map[string]*statepb.NodeGrant) (changed map[*node]claimant, lost []NodeRefused) {
	changed = map[*node]claimant{}
	grant, remains := next[pattern]
	// The first grant and the last one change what all nodes may claim.
	all := len(c.nodeGrants) == 0 || len(next) == 0
	for _, n := range c.byName {
		id := scheduling.NodeID(n.record.GetId())
		matches := matchesNode(pattern, string(id))
		if !matches && !all {
			continue
		}
		matching := slices.DeleteFunc(slices.Clone(n.claims.matching), func(g *statepb.NodeGrant) bool { return g.GetPattern() == pattern })
		if matches && remains {
			matching = append(matching, grant)
		}
		claims := claimant{matching: matching, refusal: nodeRefusal(len(next) > 0, matching, n.record)}
		if claims.refusal != "" && n.claims.refusal == "" {
			lost = append(lost, NodeRefused{ID: id, Reason: claims.refusal})
		}
		changed[n] = claims
	}
	return changed, lost
}

// setClaimant sets what the grants say about a registered node.
func setClaimant(s *State, n *node, claims claimant) {
	n.claims = claims
	if claims.refusal == "" {
		delete(s.refused, scheduling.NodeID(n.record.GetId()))
	} else {
		s.refused[scheduling.NodeID(n.record.GetId())] = claims.refusal
	}
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
func (r Rights) NodeRefusal(n *statepb.Node) string { return claimantOf(r.State, n).refusal }

// GivenTo returns what the grants that match a node's name give it together, with the name as the pattern; nil if
// none matches.
func (r Rights) GivenTo(n *statepb.Node) *statepb.NodeGrant {
	matching := claimantOf(r.State, n).matching
	if len(matching) == 0 {
		return nil
	}
	given := &statepb.NodeGrant{Pattern: n.GetId(), Max: map[string]int64{}}
	for _, g := range matching {
		given.Tags = append(given.Tags, g.GetTags()...)
	}
	given.Tags = inOrder(given.GetTags())
	for kind := range resource.Kind(resource.Count) {
		if most, bounded := most(matching, kind); bounded {
			given.Max[kind.String()] = most
		}
	}
	return given
}

// claimantOf returns what the grants say about a node that may be new, or claim something else than before.
func claimantOf(s *State, n *statepb.Node) (claims claimant) {
	if known, is := s.nodes[scheduling.NodeID(n.GetId())]; is {
		claims.matching = known.claims.matching
	} else {
		claims.matching = matchingGrants(s, n)
	}
	claims.refusal = nodeRefusal(len(s.nodeGrants) > 0, claims.matching, n)
	return claims
}

// matchingGrants returns the grants whose pattern matches the name of a node.
func matchingGrants(s *State, n *statepb.Node) (matching []*statepb.NodeGrant) {
	for pattern, g := range s.nodeGrants {
		if matchesNode(pattern, n.GetId()) {
			matching = append(matching, g)
		}
	}
	return matching
}

// restoreClaimants finds what the grants say about all nodes. It looks only at names that begin as a
// pattern does.
func restoreClaimants(s *State) {
	for pattern, g := range s.nodeGrants {
		literal := pattern
		if at := strings.IndexAny(pattern, `*?[\`); at >= 0 {
			literal = pattern[:at]
		}
		from, _ := slices.BinarySearchFunc(s.byName, scheduling.NodeID(literal), byNodeID)
		for _, n := range s.byName[from:] {
			if !strings.HasPrefix(n.record.GetId(), literal) {
				break
			}
			if matchesNode(pattern, n.record.GetId()) {
				n.claims.matching = append(n.claims.matching, g)
			}
		}
	}
	for _, n := range s.byName {
		setClaimant(s, n, claimantOf(s, n.record))
	}
}

// matchesNode reports whether a pattern, which is valid, matches the name of a node.
func matchesNode(pattern, node string) bool {
	match, _ := path.Match(pattern, node)
	return match
}

// nodeRefusal adds up the grants that match the node's name: all of their tags, and the greatest amount
// of each resource. The field asked says that there is a grant of any node.
func nodeRefusal(asked bool, matching []*statepb.NodeGrant, n *statepb.Node) string {
	if !asked {
		return ""
	}
	allow := fmt.Sprintf("an operator allows it with: weir node allow '%s'", n.GetId())
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

// RefusedNodes returns the registered nodes that are refused, with the reason, by name.
func (r Rights) RefusedNodes() (refused []NodeRefused) {
	for id, why := range sorted(r.refused) {
		refused = append(refused, NodeRefused{ID: id, Reason: why})
	}
	return refused
}
