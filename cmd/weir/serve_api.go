package main

import (
	"time"

	"github.com/google/uuid"

	"weir/api"
	"weir/cluster/wire"
)

// newAPIHandler returns what serves the public API of a replica.
func newAPIHandler(s *server) (*api.Handler, error) {
	return api.NewHandler(api.Config{
		Replica: s.flags.id, Cluster: s.protection.cluster, Version: version,
		Store: s.store, Log: s.replica, Leader: s.replica, Signals: s.replica, Directory: s.directory,
		IdentityOf: wire.IdentityOfRequest, NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
		Now: time.Now, Limits: api.DefaultLimits(), Logger: s.log,
	})
}
