// Package fairness tests outcomes: what pools had, of what they were promised, in clusters that
// chance makes up. A scenario is a file for weir simulate that follows from a seed; its kind
// says what is special about it. The judge compares what came of it with these promises:
//
//   - An always hungry pool, a leaf whose demand exceeds its fair share at every update, gets at
//     least 0.9 of its fair share on average, less half of its largest job, from 15 minutes after
//     its first demand to the end. A fair share of less than half a job is no promise.
//   - Of what a guarantee gives, in whole jobs that have room beside the guarantees of others, and
//     the pool has wanted for as long as its patience, it has at least 0.97; less than one job for
//     ten minutes is not judged. Patience is the starvation timeout (the aggressive one for jobs
//     larger than half a node), the backoff of preemption, the longest notice of any job with its
//     min_run_time, one update of fair shares, and the longest time between two looks at a node.
//   - No pool whose fair share is at least its largest job waits for its first job for longer than
//     its patience, counted from the last lost node or change of leader. Others take turns, and
//     have theirs in time to get their fair share on average.
//   - Usage exceeds resource_limits for no longer than patience less the starvation timeout.
//   - In a FIFO pool no job starts while an earlier operation has a job pending that needs no more.
//     Graceful operations may be passed over: they start no more jobs than they may keep. Jobs
//     that claim room had their turn when they claimed it.
//   - At most two fifths of what is used in a cluster are lost with jobs that are aborted for
//     others, and at most a tenth of what is used in many clusters. What pools that take turns
//     lose counts only in the latter.
//
// Usage is what jobs hold, those included that have been told to leave. Shares are of the nodes
// that are there, of the dominant resource.
package fairness
