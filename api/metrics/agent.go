package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"weir/actors"
	"weir/actors/agent"
	"weir/messages/actorpb"
)

// Station is the actors of a node.
type Station interface {
	Stats() actors.StationStats
}

// NewAgent returns what serves the metrics of an agent.
func NewAgent(version string, of Station) http.Handler { return handler(agentRegistry(version, of)) }

func agentRegistry(version string, of Station) *prometheus.Registry {
	return registry(version, agentPart(of), remotePart(func() remoteStats { return of.Stats().Remote }))
}

var (
	agentRegistered   = gauge("agent_registered", "1 once a leader has registered the agent, otherwise 0.")
	agentLease        = gauge("agent_lease_left_seconds", "How long the node may keep running without contact with a leader.")
	agentSent         = counter("agent_heartbeats_sent_total", "Heartbeats and registrations sent.")
	agentAcknowledged = counter("agent_heartbeats_acknowledged_total", "Heartbeats and registrations that renewed the lease.")
	agentRefused      = counter("agent_plans_refused_total", "Plans rejected: from stale leaders, or over capacity.")
	agentStarts       = counter("agent_job_starts_total", "Job starts, by outcome: started or failed.", "outcome")
	agentEnded        = counter("agent_jobs_ended_total", "Jobs that ended and were acknowledged, by state and abort reason.", "state", "reason")
	agentStages       = counter("agent_job_stages_total", "Stages that jobs passed on the node.", "stage")
	agentStageSeconds = counter("agent_job_stage_seconds_total", "Total time of jobs in these stages.", "stage")
	agentJobs         = gauge("agent_jobs", "Jobs that the node holds, by phase.", "phase")
	agentMemory       = gauge("agent_jobs_memory_bytes", "Memory used by the node's jobs and their proxies.")
	agentReserved     = gauge("agent_jobs_memory_reserved_bytes", "Memory of the node reserved for its jobs.")
	agentMemoryLimit  = gauge("agent_memory_limit_bytes", "Memory of the node available for jobs.")
	agentFiles        = gauge("agent_file_cache_files", "Files in the file cache.")
	agentFileBytes    = gauge("agent_file_cache_bytes", "Size of the file cache.")
	agentFileLimit    = gauge("agent_file_cache_limit_bytes", "Size limit of the file cache.")
	agentPlaced       = counter("agent_file_cache_placed_total", "Files given to jobs: hit, already cached, or miss, fetched.", "outcome")
	agentForgotten    = counter("agent_file_cache_dropped_total", "Files removed from the cache: evicted for lack of space, or damaged.", "reason")
	agentOutput       = counter("agent_job_output_bytes_total", "Output that ended jobs wrote, by stream.", "stream")
	agentDropped      = counter("agent_job_output_dropped_bytes_total", "Output of ended jobs beyond what is kept.")
	agentDiskFull     = gauge("agent_disk_full", "1 while the agent accepts no new jobs for lack of disk space, otherwise 0.")
	journalRecords    = counter("agent_journal_records_total", "Records written to the journal.")
	journalBytes      = counter("agent_journal_bytes_total", "Bytes of those records.")
	journalRewrites   = counter("agent_journal_rewrites_total", "Rewrites of the journal that drop finished jobs.")
	journalSyncs      = histogram("agent_journal_fsync_seconds", "How long the disk took to write a batch of records.")
)

func agentPart(of Station) part {
	families := []family{
		agentRegistered, agentLease, agentSent, agentAcknowledged, agentRefused, agentStarts, agentEnded, agentStages, agentStageSeconds,
		agentJobs, agentMemory, agentReserved, agentMemoryLimit, agentFiles, agentFileBytes, agentFileLimit, agentPlaced, agentForgotten,
		agentOutput, agentDropped, agentDiskFull, journalRecords, journalBytes, journalRewrites, journalSyncs,
	}
	return part{families, func(s sink) {
		stats := of.Stats().Agent
		s.flag(agentRegistered, stats.Registered)
		s.put(agentLease, stats.LeaseLeft.Seconds())
		s.put(agentSent, float64(stats.HeartbeatsSent))
		s.put(agentAcknowledged, float64(stats.HeartbeatsAcknowledged))
		s.put(agentRefused, float64(stats.PlansRefused))
		s.put(agentStarts, float64(stats.Starts), "started")
		s.put(agentStarts, float64(stats.StartsFailed), "failed")
		for end, count := range stats.Ended {
			s.put(agentEnded, float64(count), end.State, end.Reason)
		}
		for _, stage := range agent.Stages() {
			s.put(agentStages, float64(stats.Stages[stage].Jobs), stage.String())
			s.put(agentStageSeconds, stats.Stages[stage].Took.Seconds(), stage.String())
		}
		for _, phase := range actorpb.Phases() {
			s.put(agentJobs, float64(stats.Jobs[phase]), phase)
		}
		s.put(agentMemory, float64(stats.MemoryUsed))
		s.put(agentReserved, float64(stats.MemoryReserved))
		s.put(agentMemoryLimit, float64(stats.MemoryLimit))
		s.put(agentFiles, float64(stats.Files.Files))
		s.put(agentFileBytes, float64(stats.Files.Bytes))
		s.put(agentFileLimit, float64(stats.Files.Limit))
		s.put(agentPlaced, float64(stats.Files.Hits), "hit")
		s.put(agentPlaced, float64(stats.Files.Misses), "miss")
		s.put(agentForgotten, float64(stats.Files.Evicted), "evicted")
		s.put(agentForgotten, float64(stats.Files.Damaged), "damaged")
		s.put(agentOutput, float64(stats.Output.Stdout), "stdout")
		s.put(agentOutput, float64(stats.Output.Stderr), "stderr")
		s.put(agentDropped, float64(stats.Output.Dropped))
		s.flag(agentDiskFull, stats.DiskFull)
		s.put(journalRecords, float64(stats.Journal.Records))
		s.put(journalBytes, float64(stats.Journal.Bytes))
		s.put(journalRewrites, float64(stats.Journal.Rewrites))
		buckets := make(map[float64]uint64, len(stats.Journal.Syncs))
		for bound, count := range stats.Journal.Syncs {
			buckets[bound.Seconds()] = count
		}
		s <- prometheus.MustNewConstHistogram(journalSyncs.desc, stats.Journal.SyncCount, stats.Journal.SyncTotal.Seconds(), buckets)
	}}
}
