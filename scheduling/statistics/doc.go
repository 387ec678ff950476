// Package statistics names the measurements of jobs, and aggregates them.
//
// A job has integer values by name. The values of one name, of the jobs of a task that ended in one
// state, make an Aggregate: count, sum, least, greatest, and a histogram for quantiles. All
// arithmetic is on integers, so replicas that add the same values have the same bytes.
//
// The values of a job are sent and stored packed: as varints, with numbers instead of names.
package statistics
