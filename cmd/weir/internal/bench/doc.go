// Package bench measures what users feel of a whole cluster of real processes: how
// soon a job is done, how many are done in a second, and how long a leader that was
// killed is missed. It has benchmarks only, which say beside each figure what it is
// to be; docs/performance.md has figures, and what bounds them.
package bench
