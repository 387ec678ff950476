package engine

// Pools returns every pool before those below it, the root first, by name. It costs
// time in proportion to their number.
func (e *Engine) Pools() []PoolView { return e.root.view(make([]PoolView, 0, len(e.pools)), e.total) }
