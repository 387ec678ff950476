package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/actors"
	"weir/actors/remote"
	"weir/api"
	"weir/api/auditlog"
	"weir/cluster/gossip"
	"weir/cluster/wire"
	"weir/messages/actorpb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
)

// Store is the replicated state of a replica.
type Store interface {
	Stats() raftstore.Stats
	View(func(*state.State))
}

// Actors are the actors of a replica.
type Actors interface {
	Stats() actors.Stats
	Streams() remote.Stats
	SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error)
}

// ReplicaConfig holds the sources of a replica's metrics.
type ReplicaConfig struct {
	Version string
	Store   Store
	Actors  Actors
	Gossip  interface{ Members() []gossip.Member }
	API     interface{ Stats() api.Stats }
	Port    interface{ Stats() wire.Stats }
	Audit   interface{ Stats() auditlog.Stats }
	// Calls observes the calls of the API.
	Calls *Calls
	// Expires returns when the replica's certificate expires. It is nil without certificates.
	Expires func() time.Time
}

// certificate adds how long the certificate of the process is valid.
func (s sink) certificate(expires func() time.Time) {
	if expires != nil {
		gauge(s, "certificate_expires_seconds", "Time until the certificate of the process expires; negative after that.", time.Until(expires()))
	}
}

// NewReplica returns the handler that serves the metrics of a replica.
func NewReplica(cfg ReplicaConfig) http.Handler { return handler(replicaRegistry(cfg)) }

func replicaRegistry(cfg ReplicaConfig) *prometheus.Registry {
	return registry(cfg.Version, func(s sink) {
		s.certificate(cfg.Expires)
		stats := cfg.Store.Stats()
		s.raft(stats)
		s.versions(cfg.Store)
		s.state(cfg.Store)
		s.waste(cfg.Store)
		s.memory(stats.Tally, cfg.Store)
		acting := cfg.Actors.Stats()
		s.leader(acting, cfg.Actors)
		s.gateway(acting.Gateway)
		s.remote(cfg.Actors.Streams())
		gauge(s, "gossip_members", "Replicas alive according to gossip, including this one.", len(cfg.Gossip.Members()))
		s.api(cfg.API.Stats())
		s.port(cfg.Port.Stats())
		s.audit(cfg.Audit.Stats())
	}, cfg.Calls.total, cfg.Calls.duration)
}

// versions adds the version of the cluster, and the newest that this program works with.
func (s sink) versions(store Store) {
	var now uint32
	store.View(func(st *state.State) { now = st.Version() })
	gauge(s, "cluster_version", "Version of the cluster: what is newer is neither written nor sent.", uint64(now))
	gauge(s, "program_cluster_version", "Newest version of the cluster that the program of this replica works with. The upgrade is not finished while it is above weir_cluster_version.", versions.Current)
}

// Calls counts the calls of the API and measures how long they take.
type Calls struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewCalls returns Calls with counts of 0.
func NewCalls() *Calls {
	return &Calls{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_api_calls_total", Help: "Completed public API calls, by method and code (ok, or the error's code).",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_api_call_duration_seconds", Help: "How long calls of the public API took, by method. Wait and Watch last as long as the caller wants.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"method"}),
	}
}

// Observe counts a call that has ended.
func (c *Calls) Observe(procedure, code string, took time.Duration) {
	c.total.WithLabelValues(procedure, code).Inc()
	c.duration.WithLabelValues(procedure).Observe(took.Seconds())
}

// audit adds the metrics of the audit log.
func (s sink) audit(stats auditlog.Stats) {
	counter(s, "audit_written_total", "Lines written to the audit log.", stats.Written)
	counter(s, "audit_lost_total", "Decisions that are missing in the audit log because too many lines waited for the disk.", stats.Lost)
	gauge(s, "audit_waiting", "Lines of the audit log that wait for the disk.", stats.Waiting)
}

// api adds the metrics of the calls in flight.
func (s sink) api(stats api.Stats) {
	gauges(s, "api_calls_in_flight", "Calls of the public API in progress, by kind: call, wait for an operation, or output of a job.", "kind",
		map[string]int{"call": stats.Calls, "wait": stats.Watches, "output": stats.Outputs})
	gauges(s, "api_calls_limit", "Limit of concurrent calls of the public API, by kind.", "kind",
		map[string]int{"call": stats.CallsLimit, "wait": stats.WatchesLimit, "output": stats.OutputsLimit})
	gauge(s, "api_calls_queued", "Calls of the public API that wait for another call of their user to end.", stats.Queued)
	counter(s, "api_calls_beyond_share_total", "Calls of the public API that were rejected because their user had its share of calls in progress.", stats.Refused)
	gauge(s, "api_users_beyond_share", "Users whose calls were rejected for that in the last minute.", stats.RefusedSubjects)
}

// port adds the metrics of connections that have not shown a certificate.
func (s sink) port(stats wire.Stats) {
	gauges(s, "connections_in_handshake", "Connections that have not shown a certificate, by whether their address is that of a replica or an agent.", "address",
		map[string]int{"stranger": stats.Strangers, "member": stats.Members})
	counters(s, "connections_refused_total", "Connections closed before they were served, by reason: crowded, silent, slow, rejected, user, backlog, accept.", "reason", stats.Refused)
}
