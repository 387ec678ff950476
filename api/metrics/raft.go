package metrics

import (
	"time"

	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling/lifecycle"
)

// raft adds the metrics of the log of a replica, and counts of events in it.
func (s sink) raft(stats raftstore.Stats) {
	gauge(s, "raft_term", "Current term of raft.", stats.Term)
	flag(s, "raft_leader", "1 when this replica is the leader, otherwise 0.", stats.Leader)
	gauge(s, "raft_last_index", "Index of the last log entry written here.", stats.Last)
	gauge(s, "raft_commit_index", "Index of the last log entry known here to be committed.", stats.Commit)
	gauge(s, "raft_applied_index", "Index of the last log entry applied to the state here.", stats.Applied)
	gauge(s, "raft_snapshot_index", "Index of the last log entry in the latest snapshot here.", stats.Snapshot)
	if stats.LastContact >= 0 {
		gauge(s, "raft_last_contact_seconds", "Time since this follower last heard from its leader; 0 on the leader, missing if it has never heard from one.",
			stats.LastContact)
	}
	counter(s, "raft_disk_writes_total", "Writes to the log, each with its fsync.", stats.Disk.Writes)
	counter(s, "raft_disk_write_seconds_total", "Time spent in writes to the log.", stats.Disk.Total)
	gauge(s, "raft_disk_write_worst_seconds", "Longest write to the log since the start.", stats.Disk.Worst)
	gauge(s, "raft_disk_write_recent_worst_seconds", "Longest write to the log in the last one to two minutes.", stats.Disk.RecentWorst)
	counter(s, "raft_disk_doubts_total", "Writes of log entries that took half of the disk stall limit or longer: a leader sends no heartbeats meanwhile.",
		stats.Disk.Doubts)
	gauge(s, "raft_queued_commands", "Commands queued for a log entry.", stats.QueuedCommands)
	counter(s, "raft_apply_seconds_total", "Time spent applying log entries to the state.", stats.ApplyTotal)
	gauge(s, "raft_snapshot_write_seconds", "How long the latest snapshot took to write; 0 when none was written.", stats.SnapshotTook)
	gauge(s, "raft_snapshot_restore_seconds", "How long the latest snapshot took to restore; 0 when none was restored.", stats.RestoreTook)
	gauge(s, "state_checked_index", "Index of the last log entry at which the state here was that of the majority; 0: none since the start.", stats.Checks.Agreed)
	if stats.Checks.Agreed > 0 {
		gauge(s, "state_checked_seconds", "Time since then.", time.Since(stats.Checks.AgreedAt))
	}
	gauge(s, "state_hash_seconds", "How long the latest hash of the state took.", stats.Checks.Took)
	counter(s, "state_differences_total", "Comparisons of states in which this replica, as the leader, saw replicas differ.", stats.Checks.Differences)
	buckets := make(map[float64]uint64, len(stats.Batches.UpTo))
	for bound, count := range stats.Batches.UpTo {
		buckets[float64(bound)] = count
	}
	histogram(s, "raft_batch_commands", "Number of commands per log entry, for entries that this replica proposed.", stats.Batches.Entries, float64(stats.Batches.Commands), buckets)
	for end, count := range stats.Tally.Jobs {
		counter(s, "jobs_finished_total", "Attempts of jobs that ended, by state and reason of abort, as this replica saw them in the log.",
			count, labels{"state": end.State, "reason": end.Reason})
	}
	for p, count := range stats.Tally.Preemptions {
		counter(s, "preemptions_total", "Preemption orders, by pool and kind, as this replica saw them in the log. Ephemeral pools are counted as one.",
			count, labels{"tree": p.Tree, "pool": p.Pool, "kind": p.Kind})
	}
	for in, count := range stats.Tally.Interruptions {
		counter(s, "interruptions_total", "Jobs that ended after they were asked to stop, by reason and outcome.",
			count, labels{"reason": in.Reason, "outcome": in.Outcome})
	}
	counter(s, "interruption_overruns_total", "Jobs that were asked to stop and ended more than 5 s after their deadline.", stats.Tally.Overruns)
	counters(s, "operations_finished_total", "Operations that ended, by state, as this replica saw them in the log.", "state", stats.Tally.Operations)
	for refusal, count := range stats.Tally.Refusals {
		counter(s, "commands_refused_total", "Commands, and jobs within them, that the state rejected, by command and code, including late, duplicate and forged reports.",
			count, labels{"command": refusal.Command, "code": refusal.Code})
	}
	counter(s, "invariant_breaches_total", "Operations that ended with inconsistent job counters.", stats.Tally.Breaches)
}

// state adds the present numbers of operations, jobs and nodes.
func (s sink) state(of Store) {
	var counts state.Counts
	var pace *statepb.Pace
	var pending int64
	byState := map[string]int{}
	of.View(func(st *state.State) {
		counts, pace = st.Counts(), state.PaceOf(st)
		for op := range st.InProgress() {
			byState[op.GetState()]++
			for _, task := range op.GetTasks() {
				pending += task.GetCounters().GetPending()
			}
		}
	})
	for _, now := range lifecycle.States() {
		if now.InProgress() {
			gauge(s, "operations", "Operations in progress, by state.", byState[now.String()], labels{"state": now.String()})
		}
	}
	gauge(s, "operations_archived", "Finished operations in the archive.", counts.Archived)
	gauge(s, "jobs_pending", "Jobs that wait for resources.", pending)
	gauge(s, "jobs_running", "Jobs that hold resources.", counts.Allocations)
	gauges(s, "nodes", "Nodes, by state.", "state",
		map[string]int{statepb.NodeOnline: counts.NodesOnline, statepb.NodeOffline: counts.Nodes - counts.NodesOnline})
	gauge(s, "nodes_draining", "Drained nodes, online or not.", counts.NodesDraining)
	if pace != nil {
		gauge(s, "heartbeat_period_seconds", "How often agents send heartbeats.", time.Duration(pace.GetHeartbeatMillis())*time.Millisecond)
		gauge(s, "lease_seconds", "How long agents run jobs after their last heartbeat that was acknowledged.", time.Duration(pace.GetLeaseMillis())*time.Millisecond)
	}
}
