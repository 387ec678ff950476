// Package metrics shows the figures of a replica or an agent to Prometheus.
//
// The parts of a process keep plain numbers and hand out snapshots of them; the
// collectors here read those when they are scraped, and nobody else knows
// Prometheus. Names follow its conventions: weir_<part>_<what>_<unit>, counters
// end in _total, times are in seconds and sizes in bytes. What is counted is
// counted since the process started.
package metrics
