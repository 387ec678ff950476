package state

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"weir/messages/commandpb"
	"weir/scheduling/lifecycle"
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

// publishOutput records that the output of a map operation is at its final path, or why it could
// not be published. The operation cannot complete before its output is published.
func (c operationChange) publishOutput(what string, o *operation, m *commandpb.PublishOutput) *refusal {
	switch {
	case !o.reads():
		return refuse(CodeInvalidCommand, "%s: an operation of type %q has no output", what, o.record.GetSpec().GetType())
	case o.state != lifecycle.Completing:
		return refuse(CodeInvalidOperationState, "%s: it is %s, not completing", what, o.state)
	case o.record.GetOutput() != nil:
		return refuse(CodeInvalidOperationState, "%s: it has been published already", what)
	case len(o.allocations) > 0:
		return refuse(CodeAllocationsLeft, "%s: it has %d allocations, whose jobs may still write output: end them first", what, len(o.allocations))
	case m.GetError() != nil:
		c.fail(o, m.GetError(), NotePublicationFailed)
		return nil
	case m.GetOutput() == nil:
		return refuse(CodeInvalidCommand, "%s: neither an output nor an error is given", what)
	}
	c.edit(o)
	out := shallow(m.GetOutput())
	if out.GetTime() == nil {
		out.Time = c.timestamp()
	}
	o.record.Output = out
	c.note(o, NoteOutputPublished, map[string]string{"path": out.GetPath(), "rows": fmt.Sprint(out.GetRows()), "bytes": fmt.Sprint(out.GetBytes())})
	c.emit(OutputPublished{ID: o.id(), Output: out})
	return nil
}
