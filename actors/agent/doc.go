// Package agent is the process that speaks for a node: it takes jobs from the
// leader, runs them, and tells how they ended.
//
// The agent actor finds the leader among the replicas that it knows, sends
// heartbeats, keeps the node's lease, and refuses orders of leaders of the past.
// Each job has an actor of its own, which asks the operation's controller what to
// run, has it run, and repeats the result until it is acknowledged.
//
// The deciding halves are session.go (whom to ask, and when), lease.go, fence.go with
// intake.go and ledger.go (which orders to follow), space.go (whether the disk has room
// for new jobs), memory.go with pressure.go (who leaves when memory is full), gpus.go, job.go with result.go and courier.go (what a job's actor does next).
// None of them has a clock, a goroutine or a lock; time, chance and answers come as data.
// What an agent process must leave to the next one is in package journal; recover.go
// takes it over.
//
// What is promised:
//   - A job is started at most once, however often the order arrives, and never
//     by an order of a former leader: token and grant are in the journal before an
//     order is followed.
//   - Jobs outlive the agent's process. The next one, if it comes within the lease,
//     goes on with them; the end of each is in the journal once, before it is told.
//   - Nothing is done that the journal cannot take: then the agent ends, but for a full
//     disk. On that no new jobs are taken, those that there are go on, and their ends
//     are kept.
//   - A GPU is one job's until no process of it is left.
//   - A job may use more memory than its reserve until the node is full; then the one
//     that is farthest above goes first.
//   - When the leader has not been heard for the length of a lease, all jobs are
//     ended at once; job proxies hold the same lease, should the agent be frozen.
//   - The result of a job is told until the job's controller has counted it, or
//     nobody wants it; only then is its workspace removed.
package agent
