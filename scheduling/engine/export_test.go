package engine

// Filters returns how many filters are in use.
func (e *Engine) Filters() int { return len(e.cluster.filters.all) - len(e.cluster.filters.free) }
