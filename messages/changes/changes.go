// Package changes transfers a long list that changes little: once as a whole, and from then on as
// changes.
//
// Each version of a list has an id. Changes name the version that they are relative to: a receiver
// that has missed changes notices this, and gets the whole list again. The package needs only the
// standard library.
package changes

import "slices"

// Kind describes the elements of a list.
type Kind[T any] struct {
	// ID returns the id of an element, which is unique in a list.
	ID func(T) string
	// Compare orders a list; it is 0 only for elements with the same id.
	Compare func(a, b T) int
	// Equal reports whether two elements are so alike that a change from a to b need not be sent.
	Equal func(a, b T) bool
}

// Between returns the changes with which Apply turns the first list into the second. The
// result put has the elements that are new or have changed. The result gone has the ids of the
// elements that were removed.
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

// Apply returns a list with changes applied. The result shares its unchanged elements with `list`.
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
