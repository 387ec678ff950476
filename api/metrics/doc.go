// Package metrics exports the metrics of a replica or an agent to Prometheus.
//
// The parts of a process keep plain numbers and return snapshots of them. The
// collectors here read the snapshots when they are scraped; no other package of a
// process depends on Prometheus. Names follow its conventions:
// weir_<part>_<what>_<unit>, counters end in _total, times are in seconds and sizes
// in bytes. Counters start at 0 with the process.
package metrics
