package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/messages/statepb"
	"weir/raftstore/state"
	"weir/scheduling/lifecycle"
)

var (
	raftTerm          = gauge("raft_term", "Current term of raft.")
	raftLeader        = gauge("raft_leader", "1 when this replica is the leader, otherwise 0.")
	raftLast          = gauge("raft_last_index", "Index of the last log entry written here.")
	raftCommit        = gauge("raft_commit_index", "Index of the last log entry known here to be committed.")
	raftApplied       = gauge("raft_applied_index", "Index of the last log entry that the state here has seen.")
	raftSnapshot      = gauge("raft_snapshot_index", "Index of the last log entry in the latest snapshot here.")
	raftContact       = gauge("raft_last_contact_seconds", "Time since this follower last heard from its leader; 0 on the leader, missing if it never did.")
	raftWrites        = counter("raft_disk_writes_total", "Writes to the log, each with its fsync.")
	raftWriteTime     = counter("raft_disk_write_seconds_total", "Time spent in writes to the log.")
	raftWorst         = gauge("raft_disk_write_worst_seconds", "Longest write to the log since the start.")
	raftRecentWorst   = gauge("raft_disk_write_recent_worst_seconds", "Longest write to the log of the last one to two minutes.")
	raftDoubts        = counter("raft_disk_doubts_total", "Writes of log entries that took half of the disk stall limit or longer: a leader sends no heartbeats meanwhile.")
	raftQueued        = gauge("raft_queued_commands", "Commands queued for a log entry.")
	raftApplyTime     = counter("raft_apply_seconds_total", "Time spent applying log entries to the state.")
	raftSnapshotTook  = gauge("raft_snapshot_write_seconds", "How long the latest snapshot took to write; 0 when none was written.")
	raftRestoreTook   = gauge("raft_snapshot_restore_seconds", "How long the latest snapshot took to restore; 0 when none was.")
	raftBatch         = histogram("raft_batch_commands", "Commands in the log entries that this replica proposed.")
	jobsFinished      = counter("jobs_finished_total", "Attempts of jobs that ended, by state and reason of abort, as this replica saw them in the log.", "state", "reason")
	preemptions       = counter("preemptions_total", "Preemption orders, by pool and kind, as this replica saw them in the log. Ephemeral pools are counted as one.", "tree", "pool", "kind")
	interruptions     = counter("interruptions_total", "Jobs that ended after they were asked to stop, by reason and outcome.", "reason", "outcome")
	overruns          = counter("interruption_overruns_total", "Jobs that were asked to stop and ended more than 5 s after their deadline.")
	operationsEnded   = counter("operations_finished_total", "Operations that ended, by state, as this replica saw them in the log.", "state")
	commandsRefused   = counter("commands_refused_total", "Commands, and jobs within them, that the state rejected, by command and code, including late, duplicate and forged reports.", "command", "code")
	invariantBreaches = counter("invariant_breaches_total", "Operations that ended with inconsistent job counters.")
)

func raftPart(of Store) part {
	families := []family{
		raftTerm, raftLeader, raftLast, raftCommit, raftApplied, raftSnapshot, raftContact, raftWrites, raftWriteTime, raftWorst, raftRecentWorst, raftDoubts,
		raftQueued, raftApplyTime, raftSnapshotTook, raftRestoreTook, raftBatch, jobsFinished, preemptions, interruptions, overruns, operationsEnded, commandsRefused, invariantBreaches,
	}
	return part{families, func(s sink) {
		stats := of.Stats()
		s.put(raftTerm, float64(stats.Term))
		s.flag(raftLeader, stats.Leader)
		s.put(raftLast, float64(stats.Last))
		s.put(raftCommit, float64(stats.Commit))
		s.put(raftApplied, float64(stats.Applied))
		s.put(raftSnapshot, float64(stats.Snapshot))
		if stats.LastContact >= 0 {
			s.put(raftContact, stats.LastContact.Seconds())
		}
		s.put(raftWrites, float64(stats.Disk.Writes))
		s.put(raftWriteTime, stats.Disk.Total.Seconds())
		s.put(raftWorst, stats.Disk.Worst.Seconds())
		s.put(raftRecentWorst, stats.Disk.RecentWorst.Seconds())
		s.put(raftDoubts, float64(stats.Disk.Doubts))
		s.put(raftQueued, float64(stats.QueuedCommands))
		s.put(raftApplyTime, stats.ApplyTotal.Seconds())
		s.put(raftSnapshotTook, stats.SnapshotTook.Seconds())
		s.put(raftRestoreTook, stats.RestoreTook.Seconds())
		buckets := make(map[float64]uint64, len(stats.Batches.UpTo))
		for bound, count := range stats.Batches.UpTo {
			buckets[float64(bound)] = count
		}
		s <- prometheus.MustNewConstHistogram(raftBatch.desc, stats.Batches.Entries, float64(stats.Batches.Commands), buckets)
		for end, count := range stats.Tally.Jobs {
			s.put(jobsFinished, float64(count), end.State, end.Reason)
		}
		for p, count := range stats.Tally.Preemptions {
			s.put(preemptions, float64(count), p.Tree, p.Pool, p.Kind)
		}
		for in, count := range stats.Tally.Interruptions {
			s.put(interruptions, float64(count), in.Reason, in.Outcome)
		}
		s.put(overruns, float64(stats.Tally.Overruns))
		for end, count := range stats.Tally.Operations {
			s.put(operationsEnded, float64(count), end)
		}
		for refusal, count := range stats.Tally.Refusals {
			s.put(commandsRefused, float64(count), refusal.Command, refusal.Code)
		}
		s.put(invariantBreaches, float64(stats.Tally.Breaches))
	}}
}

var (
	operationsNow      = gauge("operations", "Operations in progress, by state.", "state")
	operationsArchived = gauge("operations_archived", "Finished operations in the archive.")
	jobsPending        = gauge("jobs_pending", "Jobs that wait for resources.")
	jobsRunning        = gauge("jobs_running", "Jobs that hold resources.")
	nodesNow           = gauge("nodes", "Nodes, by state.", "state")
	nodesDraining      = gauge("nodes_draining", "Drained nodes, online or not.")
)

func statePart(of Store) part {
	return part{[]family{operationsNow, operationsArchived, jobsPending, jobsRunning, nodesNow, nodesDraining}, func(s sink) {
		var counts state.Counts
		var pending int64
		byState := map[string]int{}
		of.View(func(st *state.State) {
			counts = st.Counts()
			for op := range st.InProgress() {
				byState[op.GetState()]++
				for _, task := range op.GetTasks() {
					pending += task.GetCounters().GetPending()
				}
			}
		})
		for _, now := range lifecycle.States() {
			if now.InProgress() {
				s.put(operationsNow, float64(byState[now.String()]), now.String())
			}
		}
		s.put(operationsArchived, float64(counts.Archived))
		s.put(jobsPending, float64(pending))
		s.put(jobsRunning, float64(counts.Allocations))
		s.put(nodesNow, float64(counts.NodesOnline), statepb.NodeOnline)
		s.put(nodesNow, float64(counts.Nodes-counts.NodesOnline), statepb.NodeOffline)
		s.put(nodesDraining, float64(counts.NodesDraining))
	}}
}
