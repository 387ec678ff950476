package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"weir/actors"
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
	agentLease        = gauge("agent_lease_left_seconds", "How long the node may go on without hearing from a leader.")
	agentSent         = counter("agent_heartbeats_sent_total", "Heartbeats and registrations that were sent.")
	agentAcknowledged = counter("agent_heartbeats_acknowledged_total", "Heartbeats and registrations that renewed the lease.")
	agentRefused      = counter("agent_plans_refused_total", "Plans that were refused: of leaders whose time is over, or more than can be taken.")
	agentStarts       = counter("agent_job_starts_total", "Jobs whose processes were to be started, by outcome: started or failed.", "outcome")
	agentEnded        = counter("agent_jobs_ended_total", "Jobs that ended and that nobody waits for any more, by state and reason of abort.", "state", "reason")
	agentJobs         = gauge("agent_jobs", "Jobs that the node holds, by phase.", "phase")
	agentMemory       = gauge("agent_jobs_memory_bytes", "Memory that the jobs of the node use together.")
	agentOutput       = counter("agent_job_output_bytes_total", "Output that ended jobs wrote, by stream.", "stream")
	agentDropped      = counter("agent_job_output_dropped_bytes_total", "Output that ended jobs wrote beyond what is kept.")
	agentDiskFull     = gauge("agent_disk_full", "1 while the agent takes no new jobs for lack of disk space, otherwise 0.")
	journalRecords    = counter("agent_journal_records_total", "Records that the journal has on disk.")
	journalBytes      = counter("agent_journal_bytes_total", "Bytes of those records.")
	journalRewrites   = counter("agent_journal_rewrites_total", "Times that the journal was written anew, without jobs that are over.")
	journalSyncs      = histogram("agent_journal_fsync_seconds", "How long the disk took to have a batch of records.")
)

func agentPart(of Station) part {
	families := []family{
		agentRegistered, agentLease, agentSent, agentAcknowledged, agentRefused, agentStarts, agentEnded, agentJobs, agentMemory,
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
		for _, phase := range actorpb.Phases() {
			s.put(agentJobs, float64(stats.Jobs[phase]), phase)
		}
		s.put(agentMemory, float64(stats.MemoryUsed))
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
