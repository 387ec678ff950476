package devcluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"weir/actors/agent"
	"weir/actors/fleet"
	"weir/actors/remote"
	"weir/cluster/identity"
	"weir/cluster/wire"
)

// CertifyFleet issues the certificates of simulated nodes.
func (r *Reach) CertifyFleet(names []string) error {
	paths := layout{r.Dir}
	if r.Settings.Credentials == "" {
		return errors.New("simulated nodes need certificates: start the cluster without --insecure-plaintext")
	}
	authority, err := identity.OpenAuthority(paths.authority())
	if err != nil {
		return err
	}
	return issue(authority, paths.fleet, names)
}

// StartFleet certifies simulated nodes and adds them to the cluster, as JoinFleet does.
func (r *Reach) StartFleet(ctx context.Context, config fleet.Config) (*fleet.Fleet, error) {
	if err := r.CertifyFleet(config.Names); err != nil {
		return nil, err
	}
	return r.JoinFleet(ctx, config)
}

// JoinFleet adds simulated nodes with certificates to the cluster. The config lacks what is the cluster's: its id, its
// replicas, and what connects the nodes with them.
func (r *Reach) JoinFleet(ctx context.Context, config fleet.Config) (*fleet.Fleet, error) {
	paths := layout{r.Dir}
	record, err := Load(r.Dir)
	if err != nil {
		return nil, err
	}
	config.Cluster = record.Cluster
	if config.Replicas, err = r.leaderFirst(ctx); err != nil {
		return nil, err
	}
	config.Dialer = func(name string) (remote.Dialer, error) {
		loaded, err := identity.LoadCredentials(paths.fleet(name))
		if err != nil {
			return nil, err
		}
		return wire.NewDialer(wire.Mutual{Credentials: loaded})
	}
	return fleet.Start(ctx, config)
}

// fleet returns the folder of a simulated node's certificate.
func (l layout) fleet(name string) string { return filepath.Join(l.dev(), "fleet", name) }

// leaderFirst returns the replicas, the leader before the others.
func (r *Reach) leaderFirst(ctx context.Context) (replicas []agent.Replica, err error) {
	view, err := r.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the leader: %w", err)
	}
	addresses, err := r.Replicas()
	if err != nil {
		return nil, err
	}
	for id, address := range addresses {
		replica := agent.Replica{ID: id, Address: address}
		if id == view.Leader {
			replicas = append([]agent.Replica{replica}, replicas...)
		} else {
			replicas = append(replicas, replica)
		}
	}
	return replicas, nil
}

// issue writes certificates of agents to the folders of their names. Many at a time share what the disk takes for an
// fsync.
func issue(authority *identity.Authority, folder func(name string) string, names []string) error {
	const atOnce = 64
	next, failed := make(chan string), make(chan error, atOnce)
	var writers sync.WaitGroup
	for range atOnce {
		writers.Go(func() {
			var failure error
			for name := range next {
				id := identity.Identity{Role: identity.Agent, Name: name}
				failure = errors.Join(failure, authority.Issue(folder(name), id, nil, 0))
			}
			failed <- failure
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	writers.Wait()
	close(failed)
	var failure error
	for err := range failed {
		failure = errors.Join(failure, err)
	}
	return failure
}
