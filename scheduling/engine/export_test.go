package engine

// Filters returns how many filters are in use.
func (e *Engine) Filters() int { return len(e.filters.all) - len(e.filters.free) }
