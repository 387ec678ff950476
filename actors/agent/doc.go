// Package agent is the process that represents a node: it receives jobs from the leader,
// runs them, and reports how they ended.
//
// The agent actor finds the leader among the replicas that it knows, sends heartbeats, keeps
// the node's lease, and rejects orders of former leaders. Each job has an actor of its own,
// which asks the operation's controller for the spec, runs the job, and repeats the result
// until it is acknowledged.
//
// The decisions are made in session.go (which replica to ask, and when), lease.go, fence.go with
// intake.go and ledger.go (which orders to follow), space.go (whether the disk has room for new
// jobs), memory.go with pressure.go (which jobs are stopped when memory is full), gpus.go, and
// job.go with result.go and courier.go (what a job's actor does next). None of them has a clock, a
// goroutine or a lock: time, random numbers and answers are passed in. Package journal stores the
// state that an agent process passes on to the next one; recover.go restores it.
//
// Guarantees:
//   - A job is started at most once, however often the order arrives, and never
//     by an order of a former leader: token and grant are in the journal before an
//     order is followed.
//   - Jobs outlive the agent's process. The next one, if it starts within the lease,
//     adopts them. The end of each job is in the journal once, before it is reported.
//   - Nothing is done that the journal cannot record: when a write fails, the agent ends.
//     If the disk is full, no new jobs are accepted, running jobs go on, and their results
//     are kept. If the disk hangs for Config.JobEndTimeout, new jobs are declined, and jobs
//     are stopped and their results reported without the journal.
//   - A GPU belongs to one job until no process of that job is left.
//   - A job may use more memory than its reserve until the node is full. After that, the job
//     farthest above its reserve is stopped first.
//   - When no leader has been heard for the length of a lease, all jobs are ended at
//     once. Job proxies hold the same lease, in case the agent is frozen.
//   - The result of a job is reported until the job's controller has counted it, or
//     nobody wants it; only then is its workspace removed.
package agent
