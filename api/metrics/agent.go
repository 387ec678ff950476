package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/actors"
	"weir/actors/agent"
	"weir/messages/actorpb"
)

// Station is the actors of a node.
type Station interface {
	Stats() actors.StationStats
}

// NewAgent returns the handler that serves the metrics of an agent. The function `expires` returns
// when the agent's certificate expires; it is nil without certificates.
func NewAgent(version string, of Station, expires func() time.Time) http.Handler {
	return handler(agentRegistry(version, of, expires))
}

func agentRegistry(version string, of Station, expires func() time.Time) *prometheus.Registry {
	return registry(version, func(s sink) {
		s.certificate(expires)
		stats := of.Stats()
		s.agent(stats.Agent)
		s.remote(stats.Remote)
	})
}

// agent adds the metrics of a node and its jobs.
func (s sink) agent(stats agent.Stats) {
	flag(s, "agent_registered", "1 once a leader has registered the agent, otherwise 0.", stats.Registered)
	gauge(s, "agent_lease_left_seconds", "How long the node may keep running without contact with a leader.", stats.LeaseLeft)
	counter(s, "agent_heartbeats_sent_total", "Heartbeats and registrations sent.", stats.HeartbeatsSent)
	counter(s, "agent_heartbeats_acknowledged_total", "Heartbeats and registrations that renewed the lease.", stats.HeartbeatsAcknowledged)
	counter(s, "agent_plans_refused_total", "Plans rejected: from stale leaders, or over capacity.", stats.PlansRefused)
	counters(s, "agent_job_starts_total", "Job starts, by outcome: started or failed.", "outcome",
		map[string]uint64{"started": stats.Starts, "failed": stats.StartsFailed})
	for end, count := range stats.Ended {
		counter(s, "agent_jobs_ended_total", "Jobs whose end has been acknowledged, by state and abort reason.",
			count, labels{"state": end.State, "reason": end.Reason})
	}
	for _, stage := range agent.Stages() {
		counter(s, "agent_job_stages_total", "Stages that jobs passed on the node.", stats.Stages[stage].Jobs, labels{"stage": stage.String()})
		counter(s, "agent_job_stage_seconds_total", "Total time that jobs spent in each stage on the node.", stats.Stages[stage].Took, labels{"stage": stage.String()})
	}
	for _, phase := range actorpb.Phases() {
		gauge(s, "agent_jobs", "Jobs that the node holds, by phase.", stats.Jobs[phase], labels{"phase": phase})
	}
	gauge(s, "agent_jobs_memory_bytes", "Memory used by the node's jobs and their proxies.", stats.MemoryUsed)
	gauge(s, "agent_jobs_memory_reserved_bytes", "Memory of the node reserved for its jobs.", stats.MemoryReserved)
	gauge(s, "agent_memory_limit_bytes", "Memory of the node available for jobs.", stats.MemoryLimit)
	gauge(s, "agent_file_cache_files", "Files in the file cache.", stats.Files.Files)
	gauge(s, "agent_file_cache_bytes", "Size of the file cache.", stats.Files.Bytes)
	gauge(s, "agent_file_cache_limit_bytes", "Size limit of the file cache.", stats.Files.Limit)
	counters(s, "agent_file_cache_placed_total", "Files placed for jobs, by outcome: hit (already cached) or miss (had to be fetched).", "outcome",
		map[string]uint64{"hit": stats.Files.Hits, "miss": stats.Files.Misses})
	counters(s, "agent_file_cache_dropped_total", "Files removed from the cache: evicted for lack of space, or damaged.", "reason",
		map[string]uint64{"evicted": stats.Files.Evicted, "damaged": stats.Files.Damaged})
	counters(s, "agent_job_output_bytes_total", "Output written by jobs that have ended, by stream.", "stream",
		map[string]int64{"stdout": stats.Output.Stdout, "stderr": stats.Output.Stderr})
	counter(s, "agent_job_output_dropped_bytes_total", "Output of ended jobs beyond what is kept.", stats.Output.Dropped)
	flag(s, "agent_jobs_share_user", "1 if jobs that name no user all run as one, 0 if each runs as a user of its own.", stats.SharedUser)
	flag(s, "agent_disk_full", "1 while the agent accepts no new jobs for lack of disk space, otherwise 0.", stats.DiskFull)
	counter(s, "agent_journal_records_total", "Records written to the journal.", stats.Journal.Records)
	counter(s, "agent_journal_bytes_total", "Bytes of records written to the journal.", stats.Journal.Bytes)
	counter(s, "agent_journal_rewrites_total", "Rewrites of the journal that drop finished jobs.", stats.Journal.Rewrites)
	buckets := make(map[float64]uint64, len(stats.Journal.Syncs))
	for bound, count := range stats.Journal.Syncs {
		buckets[bound.Seconds()] = count
	}
	histogram(s, "agent_journal_fsync_seconds", "How long the disk took to write a batch of records.",
		stats.Journal.SyncCount, stats.Journal.SyncTotal.Seconds(), buckets)
}
