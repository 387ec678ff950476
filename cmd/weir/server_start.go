package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"weir/actors"
	"weir/actors/gateway"
	"weir/api/auditlog"
	"weir/cluster"
	"weir/cluster/clock"
	"weir/cluster/gossip"
	"weir/cluster/identity"
	"weir/cluster/storage"
	"weir/cluster/wire"
	"weir/cmd/weir/internal/collector"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/events"
	"weir/raftstore/state"
	"weir/scheduling"
	"weir/scheduling/engine"
)

// runServer runs a replica until `asked` is done.
func runServer(asked context.Context, f *serverFlags, log *slog.Logger, say func(string)) (err error) {
	peers, err := f.known()
	if err != nil {
		return err
	}
	if f.data == "" {
		return &exitError{exitUsage, errors.New("--data is needed: folder of this replica's log and snapshots")}
	}
	if err := f.validate(); err != nil {
		return &exitError{exitUsage, err}
	}
	if f.advertise == "" {
		f.advertise, _ = peers.Address(scheduling.ReplicaID(f.id))
	}
	if f.advertise == "" {
		return &exitError{exitUsage, fmt.Errorf("--advertise is needed: replica %q is not in the list %s", f.id, peers)}
	}
	s := &server{flags: f, peers: peers, log: log, clock: clock.New()}
	ctx, fail := context.WithCancelCause(asked)
	s.fail = fail
	go collector.Run(ctx)
	defer func() {
		err = errors.Join(err, s.close())
		fail(nil)
	}()
	if err = take(ctx, s.listen, s.gossiping, s.open, s.act, s.serve, s.belong); err == nil {
		say(fmt.Sprintf("ready: replica %s of cluster %s at %s", f.id, s.protection.cluster, f.advertise))
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	if asked.Err() != nil && errors.Is(context.Cause(ctx), context.Cause(asked)) {
		// The stop was requested, perhaps before the replica was up.
		log.Info("stopping")
		return nil
	}
	return err
}

// take runs the steps of the start. If a part that already runs fails meanwhile and ends ctx,
// take returns that error and runs no further step.
func take(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		err := step(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// server is a replica that starts, runs or stops. Each step of its start appends the
// function that undoes it; close calls them in reverse.
type server struct {
	flags      *serverFlags
	peers      cluster.Peers
	log        *slog.Logger
	clock      *clock.Clock
	protection protection
	roll       *roll
	mux        *wire.Mux
	dialer     *wire.Dialer
	gossip     *gossip.Gossip
	directory  *cluster.Directory
	events     *events.Log
	audit      *auditlog.Log
	store      *raftstore.Store
	membership *membership
	replica    *actors.Replica
	// incarnation distinguishes the lives of this process.
	incarnation uint64
	// fail ends the process with an error, also during its start.
	fail context.CancelCauseFunc
	undo []func() error
}

// listen opens the one port of the replica.
func (s *server) listen(context.Context) (err error) {
	s.incarnation = newIncarnation()
	s.protection, err = s.flags.security.load(identity.Replica, s.flags.id, s.log)
	if err != nil {
		return err
	}
	if err := s.rebuild(); err != nil {
		return err
	}
	// Before anyone can connect.
	if s.roll, err = readRoll(s.flags.data); err != nil {
		return err
	}
	s.protection.heedMembers(s.roll.accepts)
	stopRenewal := s.protection.keepFresh(lookAtCertificate, s.log)
	s.undo = append(s.undo, func() error { stopRenewal(); return nil })
	if s.dialer, err = wire.NewDialer(s.protection.security); err != nil {
		return err
	}
	s.mux, err = wire.Listen(wire.Config{Address: s.flags.listen, Security: s.protection.security, Members: s.peers.Addresses(), Logger: s.log})
	if err != nil {
		return err
	}
	s.undo = append(s.undo, s.mux.Close)
	return nil
}

// gossiping makes this replica known to the others.
func (s *server) gossiping(context.Context) (err error) {
	began, kept, err := s.hasBegun()
	if err != nil {
		return err
	}
	// A replica that joins takes no part in the bootstrap.
	list := when(len(s.flags.join) == 0, s.peers.Fingerprint())
	profile := gossip.Local
	if s.flags.timing == "fast" {
		profile = gossip.Fast
	}
	s.gossip, err = gossip.Start(gossip.Config{
		Self: gossip.Member{
			ID: scheduling.ReplicaID(s.flags.id), Address: s.flags.advertise, APIAddress: s.flags.advertise, Version: version,
			Can: versions.Current, ClusterVersion: uint64(kept), PeerList: list, Initialized: began, Incarnation: s.incarnation,
		},
		Cluster: s.protection.cluster, Keys: s.protection.gossipKeys(), Insecure: s.flags.security.insecure, Accepts: s.roll.accepts,
		Port: s.mux, Dialer: s.dialer, Peers: s.peers.Addresses(), Profile: profile, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.undo = append(s.undo, s.gossip.Close)
	if err := s.protection.heedGossipKeys(s.gossip.UseKeys); err != nil {
		return err
	}
	s.undo = append(s.undo, s.heedVersions())
	s.directory = cluster.NewDirectory(s.peers, s.gossip)
	s.undo = append(s.undo, func() error { s.directory.Close(); return nil })
	s.undo = append(s.undo, func() error {
		// Leave, so that the others do not wait for this replica. It is fine if no peer is up to
		// receive it.
		if err := s.gossip.Leave(time.Second); err != nil {
			s.log.Debug("leave gossip", "error", err)
		}
		return nil
	})
	return nil
}

// open opens the replicated state: of a cluster that begins now, or of the one
// that this replica belongs to.
func (s *server) open(ctx context.Context) error {
	// Two processes that vote under one name could make two leaders.
	if err := s.gossip.Alone(ctx); err != nil {
		return err
	}
	s.beside(func(ctx context.Context) {
		// Another process, which started earlier, may turn out to be the same replica.
		if err := s.gossip.AwaitRival(ctx); err != nil {
			s.fail(err)
		}
	})
	decision, err := cluster.AwaitBootstrap(ctx, scheduling.ReplicaID(s.flags.id), s.peers, s.begun, s.gossip, s.log)
	if err != nil {
		return err
	}
	s.log.Info("bootstrap decided", "action", decision.Action, "reason", decision.Reason)
	s.membership = newMembership(s)
	s.undo = append(s.undo, func() error { s.membership.http.CloseIdleConnections(); return nil })
	if decision.Action == cluster.Resume && !s.hasLog() {
		// A replica that has lost its log might vote against its earlier promises, so the
		// leader must admit it first.
		if err := s.membership.enter(ctx); err != nil {
			return err
		}
	}
	cfg := s.folder()
	cfg.Address = s.flags.advertise
	cfg.CheckPeriod, cfg.Hashes = s.flags.checkPeriod, &hashes{gossip: s.gossip, log: s.log}
	cfg.Locate, cfg.DiskStall = s.locate, s.flags.diskStall
	cfg.Transport = raftstore.Transport{Listener: s.mux.Raft(), Dial: s.dialer.DialRaft}
	cfg.SnapshotThreshold = s.flags.snapshotThreshold
	cfg.Clock = s.clock
	cfg.Fatal = func(err error) {
		if errors.Is(err, raftstore.ErrUnreadable) || errors.Is(err, raftstore.ErrSnapshotFormat) {
			// What is on disk is whole, and this replica may still hand over what it leads.
			s.fail(err)
			return
		}
		failStop(s.log, fmt.Errorf("replica %s exits, since its state on disk may be wrong: %w", s.flags.id, err))
	}
	if s.flags.timing == "fast" {
		cfg.Timeouts = raftstore.FastTimeouts()
	}
	for _, voter := range decision.Voters {
		cfg.InitialPeers = append(cfg.InitialPeers, raftstore.Peer{ID: string(voter.ID), Address: voter.Address})
	}
	if ctx.Err() != nil {
		// A rival was found: stop before this process could vote.
		return context.Cause(ctx)
	}
	log, err := s.flags.eventLog(s.log)
	if err != nil {
		return err
	}
	if s.events, err = events.Open(log); err != nil {
		return err
	}
	s.undo = append(s.undo, s.events.Close)
	cfg.Events = s.events
	audited, err := s.flags.auditLog(s.log)
	if err != nil {
		return err
	}
	if s.audit, err = auditlog.Open(audited); err != nil {
		return err
	}
	s.undo = append(s.undo, s.audit.Close)
	if s.store, err = raftstore.Open(cfg); err != nil {
		return err
	}
	s.roll.store.Store(s.store)
	s.undo = append(s.undo, s.store.Close)
	s.protection.heed(s.revocations)
	// The membership uses the store, so it ends first.
	return s.membership.follow()
}

// revocations returns those of now; nil if there are none.
func (s *server) revocations() (current revocationOf) {
	s.store.View(func(st *state.State) {
		if state.RightsIn(st).AnyRevoked() {
			current = s.revocation
		}
	})
	return current
}

// revocation is a revocationOf.
func (s *server) revocation(serial, role, name string, issued time.Time) (found *statepb.Revocation) {
	s.store.View(func(st *state.State) { found = state.RightsIn(st).Revoked(serial, role, name, issued) })
	return found
}

// beside calls `work` in the background until the replica stops.
func (s *server) beside(work func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { work(ctx) })
	s.undo = append(s.undo, func() error {
		cancel()
		working.Wait()
		return nil
	})
}

// agree checks that this replica's list of peers fits the members of a cluster that has
// begun; founders are the peers that the cluster began with.
func (s *server) agree(founders string, members cluster.Peers) error {
	if len(s.flags.join) > 0 {
		return nil
	}
	founding := ""
	if founders != "" {
		list, err := cluster.ParsePeers(strings.Split(founders, ","))
		if err != nil {
			return fmt.Errorf("founders of the cluster: %w", err)
		}
		founding = list.Fingerprint()
	}
	reason, err := cluster.Agree(scheduling.ReplicaID(s.flags.id), s.peers, founding, members, s.gossip.Members())
	if reason != "" {
		s.log.Info("list of peers differs from the members", "reason", reason)
	}
	return err
}

// belong waits until this replica's role in the cluster is decided, if it started without a
// log.
func (s *server) belong(ctx context.Context) error {
	select {
	case <-s.membership.settled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// locate returns the address of a replica that is alive.
func (s *server) locate(replica string) (string, bool) {
	known, ok := s.directory.View().Replica(scheduling.ReplicaID(replica))
	return known.Address, ok && known.Live && known.Address != ""
}

// begun reports whether the cluster has begun, so that it must not be bootstrapped: this replica
// has been part of it while it had a leader, or another replica has and will bring this one up
// to date. A folder alone proves nothing: the replica may have died before its first log entry.
func (s *server) begun() bool {
	if began, _, err := s.hasBegun(); err == nil && began || raftstore.Rebuilt(raftDir(s.flags.data)) {
		return true
	}
	return slices.ContainsFunc(s.gossip.Members(), func(m gossip.Member) bool { return m.Initialized && string(m.ID) != s.flags.id })
}

func (s *server) hasLog() bool {
	entries, err := os.ReadDir(raftDir(s.flags.data))
	return err == nil && len(entries) > 0
}

// hasBegun reports whether this replica has been part of a cluster with a leader, and the version of the
// cluster in its folder.
func (s *server) hasBegun() (began bool, version uint32, err error) {
	id, err := raftstore.ReadIdentity(raftDir(s.flags.data))
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	return id.Began, id.Format, err
}

// act starts the actors.
func (s *server) act(context.Context) (err error) {
	limits, err := s.flags.limits()
	if err != nil {
		return err
	}
	s.replica, err = actors.Start(actors.Config{
		ID: s.flags.id, Cluster: s.protection.cluster, Incarnation: s.incarnation, Version: version,
		Store: s.store, Directory: s.directory, Gossip: s.gossip, Dialer: s.dialer, IdentityOf: wire.IdentityOfRequest, Clock: s.clock,
		Limits: limits, Engine: engine.Default(), Gateway: gateway.DefaultLimits(), Timing: s.flags.actorTiming(),
		Storage: storage.New(storage.Config{Roots: s.flags.dataRoots}), Vault: s.protection.vault, NewID: newID, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.undo = append(s.undo, s.replica.Close)
	return nil
}

// serve answers clients, agents and other replicas.
func (s *server) serve(context.Context) error {
	routes, stop, err := newAPIHandler(s)
	if err != nil {
		return err
	}
	routes.Handle(s.replica.Handler())
	open := wire.ForMembers(routes, s.protection.security, apipbconnect.ClusterServiceJoinProcedure)
	server := &http.Server{Handler: open, ReadHeaderTimeout: 10 * time.Second}
	s.mux.ConfigureServer(server)
	go func() {
		if err := server.Serve(s.mux.HTTP()); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("serve %s: %w", s.flags.listen, err))
		}
	}()
	s.undo = append(s.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		// Hand over leadership before the clients of this replica are disconnected.
		if current, _ := s.store.Leadership(); current.Leader {
			if err := s.store.Transfer(ctx, ""); err != nil {
				s.log.Warn("leadership not transferred", "error", err)
			}
		}
		// Watches and streams of actors last until they are closed; requests end by
		// themselves.
		stop()
		if err := s.replica.Close(); err != nil {
			return err
		}
		if err := server.Shutdown(ctx); err != nil {
			return server.Close()
		}
		return nil
	})
	return nil
}

// newID returns an id for an operation or a job: ids sort by creation time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// newIncarnation returns a number that distinguishes the lives of a process: milliseconds, then
// random bits. Later lives have greater numbers, because a node rejects an earlier life.
func newIncarnation() uint64 { return uint64(time.Now().UnixMilli())<<20 | rand.Uint64N(1<<20) }
