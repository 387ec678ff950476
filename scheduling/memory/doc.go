// Package memory finds how much memory to reserve for jobs, from what earlier ones used.
//
// A job may use up to the memory_limit of its task, and few come near it. So what is held
// for the next job is the 95th percentile of what the task's jobs so far have needed, as a
// share of the limit: a Digest for the job's own processes, and one for its job proxy (J.1).
// A task whose operation has run before begins from what that one has left, its prior.
//
// The package is pure: equal samples in equal order give the same digest to the last bit, also
// when it was written down and read back anywhere in between.
package memory
