package engine

// recycled holds values that have ended and are used again: what comes and goes with every job
// costs no memory.
type recycled[T any] []*T

// take returns a zero value.
func (r *recycled[T]) take() *T {
	last := len(*r) - 1
	if last < 0 {
		return new(T)
	}
	v := (*r)[last]
	*r = (*r)[:last]
	return v
}

// put takes back a value that nobody refers to any more.
func (r *recycled[T]) put(v *T) {
	var zero T
	*v = zero
	*r = append(*r, v)
}
