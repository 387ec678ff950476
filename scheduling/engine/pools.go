package engine

// Pools returns every pool before those below it, the root first, by name. It costs
// time in proportion to their number.
func (e *Engine) Pools() []PoolView { return e.root.view(make([]PoolView, 0, len(e.pools)), e.total) }

// Pressing reports whether, as of the last Tick, a heartbeat of a node on which nothing
// has ended may preempt somebody: because others starve or limits are exceeded, or
// because operations are preempted ahead of need.
func (e *Engine) Pressing() (now, gracefully bool) {
	now = e.exceeded
	for _, starving := range e.starving {
		now = now || len(starving) > 0
	}
	return now, e.gracefully
}
