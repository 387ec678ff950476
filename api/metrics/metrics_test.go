package metrics

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"weir/actors"
	"weir/actors/gateway"
	"weir/actors/remote"
	"weir/actors/scheduler"
	"weir/api"
	"weir/api/auditlog"
	"weir/cluster/gossip"
	"weir/cluster/wire"
	"weir/messages/actorpb"
	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore"
	"weir/raftstore/state"
)

// replicaFake has a value of its own for each figure.
type replicaFake struct {
	state   *state.State
	actors  actors.Stats
	streams remote.Stats
	view    *actorpb.SchedulerView
	noViews bool
}

func newReplicaFake() *replicaFake {
	f := &replicaFake{
		state: state.New(),
		actors: actors.Stats{
			Leading: true, Controllers: 3, HeartbeatsDropped: 4,
			Gateway:   gateway.Stats{InFlight: 5, Refused: map[string]uint64{"overloaded": 6}},
			Scheduler: scheduler.Stats{Updates: 7, UpdateTook: 8 * time.Second, Updated: time.UnixMilli(9500), Plans: 10, Started: 12, Refused: 13, InFlight: 14, LeftOut: map[string]uint64{scheduler.ByLimits: 15, "cpu": 16}},
		},
		streams: remote.Stats{
			SentMessages: 15, SentBytes: 16, Dropped: map[string]uint64{"queue_full": 17},
			Peers: []remote.PeerStats{{Peer: "agent/n1", QueuedMessages: 1, QueuedBytes: 10}, {Peer: "agent/n2", QueuedMessages: 2, OpenRequests: 3}, {Peer: "replica/r2"}},
		},
		view: &actorpb.SchedulerView{Elements: []*actorpb.ElementView{
			{Tree: "default", Id: "<Root>", Pool: true, FairShare: 1, UsageShare: 0.5, DemandShare: 0.75},
			{Tree: "gpu", Id: "<Root>", Pool: true, FairShare: 0.125}, {Tree: "default", Id: "op-1", FairShare: 0.25},
		}},
	}
	for i, command := range []proto.Message{
		&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "c1"},
		&commandpb.RaiseVersion{Version: 2},
		&commandpb.SetPace{Term: 1, Pace: &statepb.Pace{HeartbeatMillis: 1500, LeaseMillis: 7500}},
		&commandpb.RegisterNode{Term: 1, Node: &statepb.Node{Id: "n1", Incarnation: 1, Resources: &statepb.Resources{UserSlots: 1, CpuHundredths: 100, Memory: 1}}},
	} {
		if result, _ := f.state.Apply(uint64(i+1), command); result.GetRefusal() != nil {
			panic(result.GetRefusal().GetMessage())
		}
	}
	return f
}

func (f *replicaFake) View(read func(*state.State)) { read(f.state) }

func (f *replicaFake) SchedulerView(context.Context, *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error) {
	if f.noViews {
		return nil, errors.New("busy")
	}
	return f.view, nil
}

func (f *replicaFake) Members() []gossip.Member { return make([]gossip.Member, 3) }

type storeFake struct{ *replicaFake }

func (storeFake) Stats() raftstore.Stats {
	return raftstore.Stats{
		Term: 2, Leader: true, Last: 30, Commit: 29, Applied: 28, Snapshot: 27, LastContact: 1500 * time.Millisecond,
		Disk:           raftstore.DiskStats{Writes: 26, Total: 2 * time.Second, Worst: 250 * time.Millisecond, RecentWorst: 125 * time.Millisecond, Doubts: 3},
		Checks:         raftstore.CheckStats{Agreed: 26, AgreedAt: time.Now().Add(-time.Hour), Took: 750 * time.Millisecond, Differences: 2},
		QueuedCommands: 25, Batches: raftstore.BatchStats{Entries: 3, Commands: 20, UpTo: map[int]uint64{1: 1, 16: 3}},
		Tally: raftstore.Tally{
			Jobs:       map[raftstore.JobEnd]uint64{{State: "aborted", Reason: "preemption"}: 24, {State: "completed"}: 23},
			Operations: map[string]uint64{"completed": 22}, Overruns: 31,
			Preemptions:   map[raftstore.Preemption]uint64{{Tree: "default", Pool: "ads", Kind: "graceful_preemption"}: 32},
			Interruptions: map[raftstore.Interruption]uint64{{Reason: "user_request", Outcome: "timeout"}: 33},
			Refusals:      map[raftstore.Refusal]uint64{{Command: "FinishJobs", Code: "unknown_allocation"}: 21},
			Breaches:      1, Samples: 41, GangRestarts: 42,
			Data: raftstore.DataTally{ReadRows: 43, ReadBytes: 44, WrittenRows: 45, WrittenBytes: 46, SkippedRows: 47},
		},
	}
}

type actorsFake struct{ *replicaFake }

func (f actorsFake) Stats() actors.Stats { return f.actors }

func (f actorsFake) Streams() remote.Stats { return f.streams }

type apiFake struct{}

func (apiFake) Stats() api.Stats {
	return api.Stats{Calls: 1, CallsLimit: 2, Watches: 3, WatchesLimit: 4, Outputs: 51, OutputsLimit: 52, Queued: 53, Refused: 54, RefusedSubjects: 55}
}

type portFake struct{}

func (portFake) Stats() wire.Stats {
	return wire.Stats{Strangers: 61, Members: 62, Refused: map[string]uint64{wire.RefusedCrowded: 63}}
}

type auditFake struct{}

func (auditFake) Stats() auditlog.Stats { return auditlog.Stats{Written: 5, Lost: 6, Waiting: 7} }

func (f *replicaFake) registry() *prometheus.Registry {
	calls := NewCalls()
	calls.Observe("/weir.api.v1.ClusterService/Status", "ok", 3*time.Millisecond)
	return replicaRegistry(ReplicaConfig{Version: "v1", Store: storeFake{f}, Actors: actorsFake{f}, Gossip: f, API: apiFake{}, Port: portFake{}, Audit: auditFake{}, Calls: calls, Expires: func() time.Time { return time.Now().Add(time.Hour) }})
}

func TestNamesFollowTheConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(newReplicaFake().registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// shown returns the lines that a scrape brings.
func shown(t *testing.T, h http.Handler) map[string]bool {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(w.Body.String()) {
		lines[strings.TrimSpace(line)] = true
	}
	return lines
}

func TestReplicaShowsItsFigures(t *testing.T) {
	lines := shown(t, handler(newReplicaFake().registry()))
	for _, want := range []string{
		`weir_build_info{version="v1"} 1`, `weir_raft_term 2`, `weir_raft_leader 1`, `weir_raft_last_index 30`, `weir_raft_commit_index 29`,
		`weir_raft_applied_index 28`, `weir_raft_snapshot_index 27`, `weir_raft_last_contact_seconds 1.5`, `weir_raft_disk_writes_total 26`,
		`weir_raft_disk_write_seconds_total 2`, `weir_raft_disk_write_worst_seconds 0.25`, `weir_raft_disk_write_recent_worst_seconds 0.125`, `weir_raft_disk_doubts_total 3`,
		`weir_state_checked_index 26`, `weir_state_hash_seconds 0.75`, `weir_state_differences_total 2`, `weir_raft_queued_commands 25`, `weir_raft_batch_commands_bucket{le="16"} 3`, `weir_raft_batch_commands_sum 20`,
		`weir_jobs_finished_total{reason="preemption",state="aborted"} 24`, `weir_jobs_finished_total{reason="",state="completed"} 23`,
		`weir_operations_finished_total{state="completed"} 22`, `weir_commands_refused_total{code="unknown_allocation",command="FinishJobs"} 21`,
		`weir_preemptions_total{kind="graceful_preemption",pool="ads",tree="default"} 32`,
		`weir_interruptions_total{outcome="timeout",reason="user_request"} 33`, `weir_interruption_overruns_total 31`,
		`weir_memory_samples_total 41`, `weir_gang_restarts_total 42`, `weir_map_read_rows_total 43`, `weir_map_read_bytes_total 44`,
		`weir_map_written_rows_total 45`, `weir_map_written_bytes_total 46`, `weir_map_skipped_records_total 47`, `weir_memory_profiles 0`, `weir_memory_samples_waiting 0`,
		`weir_invariant_breaches_total 1`, `weir_nodes{state="online"} 1`, `weir_nodes{state="offline"} 0`, `weir_nodes_draining 0`, `weir_heartbeat_period_seconds 1.5`, `weir_lease_seconds 7.5`, `weir_operations{state="pending"} 0`,
		`weir_jobs_pending 0`, `weir_jobs_running 0`, `weir_leader_active 1`, `weir_controllers 3`, `weir_heartbeats_dropped_total 4`,
		`weir_gateway_requests_in_flight 5`, `weir_gateway_refused_total{code="overloaded"} 6`, `weir_scheduler_updates_total 7`,
		`weir_scheduler_update_seconds_total 8`, `weir_scheduler_last_update_timestamp_seconds 9.5`, `weir_scheduler_plans_total 10`,
		`weir_scheduler_starts_total 12`, `weir_scheduler_starts_refused_total 13`, `weir_scheduler_starts_in_flight 14`, `weir_scheduler_left_out_total{reason="limits"} 15`, `weir_scheduler_left_out_total{reason="cpu"} 16`,
		`weir_pool_fair_share_ratio{pool="<Root>",tree="default"} 1`, `weir_pool_usage_share_ratio{pool="<Root>",tree="default"} 0.5`, `weir_pool_demand_share_ratio{pool="<Root>",tree="default"} 0.75`,
		`weir_pool_fair_share_ratio{pool="<Root>",tree="gpu"} 0.125`,
		`weir_remote_sent_messages_total 15`, `weir_remote_sent_bytes_total 16`, `weir_remote_dropped_messages_total{reason="queue_full"} 17`,
		`weir_remote_peers{role="agent"} 2`, `weir_remote_peers{role="replica"} 1`, `weir_remote_queued_messages{role="agent"} 3`,
		`weir_remote_queued_bytes{role="agent"} 10`, `weir_remote_open_requests{role="agent"} 3`, `weir_gossip_members 3`,
		`weir_api_calls_in_flight{kind="call"} 1`, `weir_api_calls_limit{kind="call"} 2`, `weir_api_calls_in_flight{kind="wait"} 3`,
		`weir_api_calls_in_flight{kind="output"} 51`, `weir_api_calls_limit{kind="output"} 52`, `weir_api_calls_queued 53`, `weir_api_calls_beyond_share_total 54`,
		`weir_api_users_beyond_share 55`, `weir_connections_in_handshake{address="stranger"} 61`, `weir_connections_in_handshake{address="member"} 62`,
		`weir_connections_refused_total{reason="crowded"} 63`,
		`weir_cluster_version 2`, `weir_program_cluster_version 2`, `weir_audit_written_total 5`, `weir_audit_lost_total 6`, `weir_audit_waiting 7`,
		`weir_api_calls_total{code="ok",method="/weir.api.v1.ClusterService/Status"} 1`,
		`weir_api_call_duration_seconds_count{method="/weir.api.v1.ClusterService/Status"} 1`,
	} {
		if !lines[want] {
			t.Errorf("missing: %s", want)
		}
	}
	if lines[`weir_pool_fair_share_ratio{pool="op-1",tree="default"} 0.25`] {
		t.Error("an operation is shown as a pool")
	}
}

// Whatever is not to be had leaves the rest as it is.
func TestReplicaThatDoesNotLead(t *testing.T) {
	for name, change := range map[string]func(*replicaFake){
		"a follower":       func(f *replicaFake) { f.actors.Leading = false },
		"a scheduler busy": func(f *replicaFake) { f.noViews = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := newReplicaFake()
			change(f)
			for line := range shown(t, handler(f.registry())) {
				if strings.HasPrefix(line, "weir_pool_") {
					t.Errorf("got %s, want no pools", line)
				}
			}
		})
	}
}
