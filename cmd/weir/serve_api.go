package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/api"
	"weir/api/health"
	"weir/api/metrics"
	"weir/cluster/identity"
	"weir/cluster/wire"
)

// watchers are the roles that may look at metrics and health.
var watchers = []identity.Role{identity.Replica, identity.Client, identity.Operator}

// newAPIHandler returns what serves the public API of a replica, its metrics and
// its health. stop ends the calls that wait.
func newAPIHandler(s *server) (routes *http.ServeMux, stop func(), err error) {
	calls := metrics.NewCalls()
	handler, err := api.NewHandler(api.Config{
		Replica: s.flags.id, Cluster: s.protection.cluster, Version: version,
		Store: s.store, Log: s.replica, Leader: s.replica, Signals: s.replica, Events: s.events, Directory: s.directory,
		IdentityOf: wire.IdentityOfRequest, NewID: newID,
		Observe: calls.Observe, Health: s.health, Now: time.Now, Limits: api.DefaultLimits(), Logger: s.log,
	})
	if err != nil {
		return nil, nil, err
	}
	routes = http.NewServeMux()
	routes.Handle("/", handler)
	routes.Handle("GET /metrics", wire.ForRoles(metrics.NewReplica(metrics.ReplicaConfig{
		Version: version, Store: s.store, Actors: s.replica, Gossip: s.gossip, API: handler, Calls: calls,
	}), watchers...))
	routes.Handle("GET /healthz", wire.ForRoles(health.Alive(), watchers...))
	routes.Handle("GET /readyz", wire.ForRoles(health.Ready(
		health.Check{Name: "leader", Ask: s.knowsLeader}, health.Check{Name: "log", Ask: s.replica.ReadBarrier},
	), watchers...))
	return routes, handler.Close, nil
}

func (s *server) knowsLeader(context.Context) error {
	if current, _ := s.store.Leadership(); current.LeaderID == "" {
		return errors.New("no leader is known")
	}
	return nil
}

// health is how this replica stands.
func (s *server) health() api.Health {
	stats := s.replica.Stats()
	return api.Health{Store: s.store.Stats(), Leading: stats.Leading, SharesFound: stats.Scheduler.Updated}
}
