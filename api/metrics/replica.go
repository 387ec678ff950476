package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/actors"
	"weir/api"
	"weir/api/auditlog"
	"weir/cluster/gossip"
	"weir/messages/actorpb"
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
	SchedulerView(ctx context.Context, m *actorpb.SchedulerViewRequest) (*actorpb.SchedulerView, error)
}

// ReplicaConfig holds the sources of a replica's metrics.
type ReplicaConfig struct {
	Version string
	Store   Store
	Actors  Actors
	Gossip  interface{ Members() []gossip.Member }
	API     interface{ Stats() api.Stats }
	Audit   interface{ Stats() auditlog.Stats }
	// Calls observes the calls of the API.
	Calls *Calls
}

// NewReplica returns the handler that serves the metrics of a replica.
func NewReplica(cfg ReplicaConfig) http.Handler { return handler(replicaRegistry(cfg)) }

func replicaRegistry(cfg ReplicaConfig) *prometheus.Registry {
	return registry(cfg.Version, func(s sink) {
		stats := cfg.Store.Stats()
		s.raft(stats)
		s.state(cfg.Store)
		s.waste(cfg.Store)
		s.memory(stats.Tally, cfg.Store)
		acting := cfg.Actors.Stats()
		s.leader(acting, cfg.Actors)
		s.gateway(acting.Gateway)
		s.remote(acting.Remote)
		gauge(s, "gossip_members", "Replicas alive according to gossip, including this one.", len(cfg.Gossip.Members()))
		s.api(cfg.API.Stats())
		s.audit(cfg.Audit.Stats())
	}, cfg.Calls.total, cfg.Calls.duration)
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
	gauges(s, "api_calls_in_flight", "Calls of the public API in progress, by kind: call, or wait for an operation.", "kind",
		map[string]int{"call": stats.Calls, "wait": stats.Watches})
	gauges(s, "api_calls_limit", "Limit of concurrent calls of the public API, by kind.", "kind",
		map[string]int{"call": stats.CallsLimit, "wait": stats.WatchesLimit})
}
