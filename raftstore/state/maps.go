package state

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// sorted yields a map in key order, because nothing may depend on the order of a map.
func sorted[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// listed returns the results of the function `of` for the values of a map, in key order.
func listed[K cmp.Ordered, V, R any](m map[K]V, of func(V) R) []R {
	all := make([]R, 0, len(m))
	for _, value := range sorted(m) {
		all = append(all, of(value))
	}
	return all
}

// made returns a map, and creates it first if it is nil.
func made[K comparable, V any](m *map[K]V) map[K]V {
	if *m == nil {
		*m = make(map[K]V)
	}
	return *m
}

// orEmpty returns the value of a key, or an empty value if the key is missing.
func orEmpty[K comparable, V any](m map[K]*V, key K) *V {
	if value, ok := m[key]; ok {
		return value
	}
	return new(V)
}
