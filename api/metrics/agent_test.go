package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/actors"
	"weir/actors/agent"
	"weir/actors/agent/filecache"
	"weir/actors/agent/journal"
	"weir/actors/remote"
)

type stationFake struct{}

func (stationFake) Stats() actors.StationStats {
	return actors.StationStats{
		Agent: agent.Stats{
			Registered: true, LeaseLeft: 4500 * time.Millisecond, HeartbeatsSent: 5, HeartbeatsAcknowledged: 4, PlansRefused: 3,
			Starts: 2, StartsFailed: 1, Ended: map[agent.JobEnd]uint64{{State: "completed"}: 6, {State: "aborted", Reason: "preemption"}: 7},
			Jobs: map[string]int{"running": 8}, MemoryUsed: 9, Output: agent.Output{Stdout: 10, Stderr: 11, Dropped: 12},
			MemoryReserved: 31, MemoryLimit: 32, Files: filecache.Stats{Files: 33, Bytes: 34, Limit: 35, Hits: 36, Misses: 37, Evicted: 38, Damaged: 39},
			DiskFull: true, SharedUser: true, Stages: map[agent.Stage]agent.StageSum{agent.StageGroups: {Jobs: 41, Took: 42 * time.Millisecond}},
			Journal: journal.Stats{Records: 21, Bytes: 22, Rewrites: 23, SyncCount: 25, SyncTotal: 26 * time.Second,
				Syncs: map[time.Duration]uint64{time.Second: 24, 2500 * time.Microsecond: 7}},
		},
		Remote: remote.Stats{ReceivedMessages: 13, Peers: []remote.PeerStats{{Peer: "replica/r1"}}},
	}
}

func TestAgentShowsItsFigures(t *testing.T) {
	registry := agentRegistry("v1", stationFake{}, func() time.Time { return time.Now().Add(time.Hour) })
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	lines := shown(t, handler(registry))
	if left := gathered(t, registry, "weir_certificate_expires_seconds"); left < 3500 || left > 3600 {
		t.Errorf("the certificate expires in %v seconds, want an hour", left)
	}
	for _, want := range []string{
		`weir_agent_registered 1`, `weir_agent_lease_left_seconds 4.5`, `weir_agent_heartbeats_sent_total 5`,
		`weir_agent_heartbeats_acknowledged_total 4`, `weir_agent_plans_refused_total 3`, `weir_agent_job_starts_total{outcome="started"} 2`,
		`weir_agent_job_starts_total{outcome="failed"} 1`, `weir_agent_jobs_ended_total{reason="",state="completed"} 6`,
		`weir_agent_jobs_ended_total{reason="preemption",state="aborted"} 7`, `weir_agent_job_stages_total{stage="groups"} 41`, `weir_agent_job_stages_total{stage="files"} 0`,
		`weir_agent_job_stage_seconds_total{stage="groups"} 0.042`, `weir_agent_jobs{phase="running"} 8`, `weir_agent_jobs{phase="ended"} 0`,
		`weir_agent_jobs_memory_reserved_bytes 31`, `weir_agent_memory_limit_bytes 32`, `weir_agent_file_cache_files 33`,
		`weir_agent_file_cache_bytes 34`, `weir_agent_file_cache_limit_bytes 35`, `weir_agent_file_cache_placed_total{outcome="hit"} 36`,
		`weir_agent_file_cache_placed_total{outcome="miss"} 37`, `weir_agent_file_cache_dropped_total{reason="evicted"} 38`,
		`weir_agent_file_cache_dropped_total{reason="damaged"} 39`,
		`weir_agent_jobs_memory_bytes 9`, `weir_agent_job_output_bytes_total{stream="stdout"} 10`, `weir_agent_job_output_bytes_total{stream="stderr"} 11`,
		`weir_agent_job_output_dropped_bytes_total 12`, `weir_agent_disk_full 1`, `weir_agent_jobs_share_user 1`, `weir_agent_journal_records_total 21`,
		`weir_agent_journal_bytes_total 22`, `weir_agent_journal_rewrites_total 23`, `weir_agent_journal_fsync_seconds_count 25`,
		`weir_agent_journal_fsync_seconds_sum 26`, `weir_agent_journal_fsync_seconds_bucket{le="0.0025"} 7`,
		`weir_agent_journal_fsync_seconds_bucket{le="1"} 24`, `weir_agent_journal_fsync_seconds_bucket{le="+Inf"} 25`, `weir_remote_received_messages_total 13`, `weir_remote_peers{role="replica"} 1`,
	} {
		if !lines[want] {
			t.Errorf("missing: %s", want)
		}
	}
}

// gathered returns the value of the one metric of this name.
func gathered(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}
