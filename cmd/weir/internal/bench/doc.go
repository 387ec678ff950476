// Package bench measures what users feel of a whole cluster of real processes: how long a job
// takes, how many jobs end per second, and how long the cluster has no leader after a leader is
// killed. It has only benchmarks, which print the target beside each figure; docs/performance.md
// has figures, and says what limits them.
package bench
