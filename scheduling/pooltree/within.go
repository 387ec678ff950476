package pooltree

import "slices"

// maxWithinSteps bounds the work of Within. Filters that are meant for people take a
// handful of steps.
const maxWithinSteps = 1 << 12

// Within reports whether every node that f takes is taken by other too, whatever
// tags it has, and f takes some node. known is false when that cannot be told with
// little work: of long filters that are made to be hard.
func (f Filter) Within(other Filter) (within, known bool) {
	some, known := f.without(nothing)
	if !known || !some || f.text == other.text {
		return known && some, known
	}
	more, known := f.without(other)
	return known && !more, known
}

// nothing is a filter that takes no node.
var nothing = Filter{ops: []filterOp{{kind: 't', tag: "-"}, {kind: 't', tag: "-"}, {kind: '!'}, {kind: '&'}}}

// without reports whether there are tags that f takes and other does not.
func (f Filter) without(other Filter) (found, known bool) {
	s := search{f: f, other: other, tags: f.Tags(), otherTags: other.Tags(), has: make(map[string]truth), left: maxWithinSteps}
	found = s.found()
	return found, found || s.left >= 0
}

// truth is what is known of a tag, or follows from what is known.
type truth int8

const (
	no      truth = -1
	unknown truth = 0
	yes     truth = 1
)

// search looks for tags that f takes and other does not, by assuming one tag after
// another to be there or not, until it is sure what follows.
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
	// Something is open, so a tag is.
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

// know is what is assumed of a tag.
func (s *search) know(tag string) truth { return s.has[tag] }

// follows is what is sure of a node of whose tags some are known.
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
			stack[top] = stack[top].not()
		case '&':
			stack[top-1] = stack[top-1].and(stack[top])
			stack = stack[:top]
		case '|':
			stack[top-1] = stack[top-1].or(stack[top])
			stack = stack[:top]
		}
	}
	return stack[0]
}

func (t truth) not() truth { return -t }

func (t truth) and(other truth) truth { return min(t, other) }

func (t truth) or(other truth) truth { return max(t, other) }
