package pooltree

import "slices"

// maxWithinSteps bounds the work of Within. Filters that people write need a handful of
// steps.
const maxWithinSteps = 1 << 12

// Within reports whether f matches some possible node, and `other` matches every node that f
// matches. The result known is false if the search exceeds maxWithinSteps, which only long, contrived
// filters cause.
func (f Filter) Within(other Filter) (within, known bool) {
	some, known := f.without(nothing)
	if !known || !some || f.text == other.text {
		return known && some, known
	}
	more, known := f.without(other)
	return known && !more, known
}

// nothing is a filter that matches no node.
var nothing = Filter{ops: []filterOp{{kind: 't', tag: "-"}, {kind: 't', tag: "-"}, {kind: '!'}, {kind: '&'}}}

// without reports whether there is a set of tags that f matches and `other` does not.
func (f Filter) without(other Filter) (found, known bool) {
	s := search{f: f, other: other, tags: f.Tags(), otherTags: other.Tags(), has: make(map[string]truth), left: maxWithinSteps}
	found = s.found()
	return found, found || s.left >= 0
}

// truth is the value of a tag or a filter in three-valued logic. The operator ! is negation, & is
// the minimum, and | is the maximum.
type truth int8

const (
	no      truth = -1
	unknown truth = 0
	yes     truth = 1
)

// search looks for a set of tags that f matches and `other` does not. It assumes one tag after
// another to be present or absent, until the values of both filters are known.
type search struct {
	f, other        Filter
	tags, otherTags []string
	has             map[string]truth
	left            int
}

func (s *search) found() bool {
	if s.left--; s.left < 0 {
		return false
	}
	taken, byOther := s.f.follows(s.know), s.other.follows(s.know)
	if taken == no || byOther == yes {
		return false
	}
	open := s.otherTags
	switch {
	case taken == unknown:
		open = s.tags
	case byOther == no:
		return true
	}
	// The value of the filter is unknown, so the value of at least one of its tags is unknown.
	tag := open[slices.IndexFunc(open, func(tag string) bool { return s.has[tag] == unknown })]
	for _, assumed := range []truth{yes, no} {
		s.has[tag] = assumed
		if s.found() {
			return true
		}
	}
	delete(s.has, tag)
	return false
}

// know returns the assumed value of a tag.
func (s *search) know(tag string) truth { return s.has[tag] }

// follows returns the value of the filter for a node of which only some tags are known.
func (f Filter) follows(has func(tag string) truth) truth {
	if f.Empty() {
		return yes
	}
	stack := make([]truth, 0, 8)
	for _, op := range f.ops {
		top := len(stack) - 1
		switch op.kind {
		case 't':
			stack = append(stack, has(op.tag))
		case '!':
			stack[top] = -stack[top]
		case '&':
			stack[top-1] = min(stack[top-1], stack[top])
			stack = stack[:top]
		case '|':
			stack[top-1] = max(stack[top-1], stack[top])
			stack = stack[:top]
		}
	}
	return stack[0]
}
