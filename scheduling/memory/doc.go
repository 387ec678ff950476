// Package memory computes how much memory to reserve for jobs, from what earlier ones used.
//
// A job may use up to the memory_limit of its task, but few come near it. So the reserve of the
// next job is the 95th percentile of what the task's jobs so far have needed, as a share of the
// limit: a Digest for the job's own processes, and one for its job proxy (J.1). A task whose
// operation has run before begins from the profile of that operation, its prior.
//
// The package is pure: equal samples in equal order give the same digest to the last bit, even if
// it was encoded and decoded at any point in between.
package memory
