// Package changes is how a list that is long and changes little is told: whole once, and from
// then on as what has changed.
//
// Each list that is told has a version. Changes say since which one they are, so that who has
// missed some finds out, and gets the whole again. The package needs the standard library only.
package changes

import "slices"

// Kind says what the elements of a list are.
type Kind[T any] struct {
	// ID tells an element from all others of a list.
	ID func(T) string
	// Compare orders a list; it is 0 for elements of one id alone.
	Compare func(a, b T) int
	// Equal reports whether there is nothing to tell when one has become the other.
	Equal func(a, b T) bool
}

// Between returns what Apply makes the list to of the list from: put are elements that are
// new or have changed, gone the ids of those that are not there any more.
func (k Kind[T]) Between(from, to []T) (put []T, gone []string) {
	for len(from) > 0 || len(to) > 0 {
		order := 0
		switch {
		case len(to) == 0:
			order = -1
		case len(from) == 0:
			order = 1
		default:
			order = k.Compare(from[0], to[0])
		}
		switch {
		case order < 0:
			gone, from = append(gone, k.ID(from[0])), from[1:]
		case order > 0:
			put, to = append(put, to[0]), to[1:]
		default:
			if !k.Equal(from[0], to[0]) {
				put = append(put, to[0])
			}
			from, to = from[1:], to[1:]
		}
	}
	return put, gone
}

// Apply returns a list with changes made to it. What has not changed is the same element.
func (k Kind[T]) Apply(list, put []T, gone []string) []T {
	drop := make(map[string]bool, len(put)+len(gone))
	for _, id := range gone {
		drop[id] = true
	}
	for _, element := range put {
		drop[k.ID(element)] = true
	}
	out := make([]T, 0, len(list)+len(put))
	for _, element := range list {
		if !drop[k.ID(element)] {
			out = append(out, element)
		}
	}
	out = append(out, put...)
	slices.SortFunc(out, k.Compare)
	return out
}
