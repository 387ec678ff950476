// Package fairness tests outcomes: what pools got of what they were promised, in randomly
// generated clusters. A scenario is a file for weir simulate that follows from a seed; its kind
// says what is special about it. The judge compares the outcome of a run with these promises:
//
//   - An always hungry pool, a leaf whose demand exceeds its fair share at every update, gets
//     at least 0.9 of its fair share on average, less half of its largest job, from 15 minutes
//     after its first demand to the end. A pool whose fair share is less than half of that job
//     is not judged.
//   - Once a pool has asked for its guarantee for as long as its patience, it gets at least
//     0.97 of it, counted in whole jobs that have room beside the guarantees of others. A pool
//     that asked for less than one job for ten minutes is not judged. Patience is the sum
//     of the starvation timeout (the aggressive one for jobs larger than half a node), the
//     backoff of preemption, the longest notice of any job with its min_run_time, one update of
//     fair shares, and the longest time between two heartbeats of a node.
//   - A pool whose fair share is at least its largest job waits for its first job no longer
//     than its patience, counted from the last lost node or change of leader. Pools with
//     smaller shares take turns; only their average fair share is promised.
//   - Usage exceeds resource_limits for no longer than patience less the starvation timeout.
//   - In a FIFO pool no job starts while an earlier operation has a pending job that needs no
//     more resources. Graceful operations may be passed over: they start only jobs that they
//     may keep. A job with a claim had its turn when the claim was made.
//   - At most two fifths of a cluster's usage is lost with jobs aborted by preemption, and at
//     most a tenth of the usage of many clusters. Losses of pools that take turns count only
//     among many clusters.
//
// Usage is the resources of running jobs, jobs that were ordered to stop included. Shares are
// of the dominant resource of the present nodes.
package fairness
