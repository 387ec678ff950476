package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"weir/api"
	"weir/cluster"
	"weir/cluster/gossip"
	"weir/cmd/poll"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
	"weir/messages/versions"
	"weir/raftstore"
	"weir/raftstore/state"
	"weir/scheduling"
)

// errRemoved ends a replica that was removed from its cluster.
var errRemoved = errors.New("removed from the cluster")

const (
	// lookPeriod is how often a replica checks its own membership.
	lookPeriod = 500 * time.Millisecond
	// confirmPeriod is how often a voter asks the leader to confirm that it is still a voter.
	confirmPeriod = 3 * time.Second
	// joinPatience bounds one request to the leader.
	joinPatience = 2 * time.Second
)

// membership manages a replica's place in its cluster: it asks the leader to admit the
// replica, and to make it a voter once it has caught up; it announces that the cluster has
// begun; and it stops a replica that was removed.
type membership struct {
	*server
	self raftstore.Applicant
	http *http.Client

	// settled is closed, by settle, once the replica's role in the cluster is decided.
	settled  chan struct{}
	settle   func()
	entering bool
	// doubted is set while the replica's own list of peers differs from the members in its
	// log. The log may be out of date, so the leader decides.
	doubted bool
	began   bool
	asked   time.Time
	// lost is set when the last question found no leader; turn counts the replicas that were asked
	// for one.
	lost bool
	turn int
	// told is the last message that was logged, so that it is not repeated.
	told string
	// version is the version of the cluster that was told to the others.
	version uint32
	// mixedSince is since when this replica has seen mixed versions; nil if they are not.
	mixedSince atomic.Pointer[time.Time]
}

// heedVersions ends this process if other replicas say that the cluster has a version that it does not know.
// The result ends the watch.
func (s *server) heedVersions() func() error {
	cancel := s.gossip.Subscribe(func(members []gossip.Member) {
		if err := beyond(versions.Program, members); err != nil {
			s.fail(fmt.Errorf("replica %s: %w", s.flags.id, err))
		}
	})
	return func() error { cancel(); return nil }
}

// beyond returns an error if most of the members say that the cluster has a newer version than a program knows. Less
// could be one that comes from a cluster before this one, as after a backup was restored, and would end all others.
func beyond(program versions.Range, members []gossip.Member) (err error) {
	newer := 0
	for _, m := range members {
		if is := program.Check(uint32(min(m.ClusterVersion, math.MaxUint32))); errors.Is(is, versions.ErrNewer) {
			newer++
			err = fmt.Errorf("the cluster is %w (according to replica %s, weir %s)", is, m.ID, m.Version)
		}
	}
	if 2*newer <= len(members) {
		return nil
	}
	return err
}

// roll knows the members of the cluster before the replica listens: those on its disk, and once the
// store is open, the store's.
type roll struct {
	onDisk []string
	store  atomic.Pointer[raftstore.Store]
}

// readRoll reads the members from a replica's data folder. A replica that has not been part of a
// cluster with a leader has nothing to protect, and has to hear of replicas with another list of
// peers.
func readRoll(data string) (*roll, error) {
	id, err := raftstore.ReadIdentity(raftDir(data))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !id.Began {
		return &roll{}, nil
	} else if err != nil {
		return nil, err
	}
	members, err := raftstore.MembersOnDisk(raftDir(data))
	return &roll{onDisk: members}, err
}

// accepts returns an error for a replica that is not a member.
func (r *roll) accepts(replica string) error {
	if store := r.store.Load(); store != nil {
		return store.Accepts(replica)
	}
	if len(r.onDisk) == 0 || slices.Contains(r.onDisk, replica) {
		return nil
	}
	return raftstore.NotMember(replica)
}

func newMembership(s *server) *membership {
	settled := make(chan struct{})
	return &membership{
		server: s, self: raftstore.Applicant{ID: s.flags.id, Address: s.flags.advertise, Can: versions.Current}, http: s.dialer.HTTPClient(0),
		settled: settled, settle: sync.OnceFunc(func() { close(settled) }),
	}
}

// enter waits until the leader admits this replica, whose log is empty, as a non-voter.
func (m *membership) enter(ctx context.Context) error {
	m.entering = true
	return poll.Every(ctx, lookPeriod, func() (bool, error) {
		// Compare the members first: a replica that reports an empty log loses its vote.
		_, members, err := m.ask(ctx, m.self)
		var answer raftstore.Suffrage
		if err == nil {
			if err := m.agree("", members); err != nil {
				return true, err
			}
			answer, _, err = m.ask(ctx, raftstore.Applicant{ID: m.self.ID, Address: m.self.Address, Empty: true, Can: m.self.Can})
		}
		switch {
		case err != nil:
			m.tell("waiting for the leader to admit this replica", "error", err)
		case answer == raftstore.NonVoter:
			m.tell("starting without a log and without a vote")
			return true, nil
		default:
			m.tell(fmt.Sprintf("waiting to be added: run weir cluster add %s --address %s", m.self.ID, m.self.Address))
		}
		return false, nil
	})
}

// tell logs a message unless it is the same as the last one.
func (m *membership) tell(what string, args ...any) {
	if what != m.told {
		m.told = what
		m.log.Info("membership: "+what, args...)
	}
}

// follow manages the membership of the open store until the replica stops.
func (m *membership) follow() error {
	members, err := m.store.Members()
	if err != nil {
		return err
	}
	if err := m.agree(m.store.Identity().Founders, peersOf(members)); err != nil {
		if !errors.Is(err, cluster.ErrPeerListsDiffer) {
			return err
		}
		m.doubted = true
		m.tell("list of peers differs from the members in the log: waiting for the leader", "error", err)
	}
	if !m.entering && !m.doubted {
		m.settle()
	}
	m.beside(func(ctx context.Context) {
		err := poll.Every(ctx, lookPeriod, func() (bool, error) {
			err := m.look(ctx)
			if errors.Is(err, errRemoved) || errors.Is(err, cluster.ErrPeerListsDiffer) {
				return true, err
			}
			if err != nil && ctx.Err() == nil {
				m.log.Debug("membership", "error", err)
			}
			return false, nil
		})
		if ctx.Err() == nil {
			m.fail(err)
		}
	})
	return nil
}

// look does one round: it announces that the cluster has begun, notes the members, and asks
// the leader about this replica's role when that is due.
func (m *membership) look(ctx context.Context) error {
	if err := errors.Join(m.begin(), m.compareVersions(time.Now())); err != nil {
		return err
	}
	members, err := m.store.Members()
	if err != nil {
		return err
	}
	if len(members) > 0 {
		m.directory.ObserveVoters(peersOf(members))
	}
	m.gossip.Review()
	id := m.store.Identity()
	if id.Voter && !m.doubted && time.Since(m.asked) < confirmPeriod {
		return nil
	}
	m.asked = time.Now()
	answer, told, err := m.ask(ctx, m.application(id))
	if err != nil {
		return err
	}
	if len(told) == 0 {
		// This replica leads.
		told = peersOf(members)
	}
	return errors.Join(m.decide(id, answer, told), m.take(id, answer))
}

// decide checks a doubted list of peers against the members that the leader names.
func (m *membership) decide(id raftstore.Identity, answer raftstore.Suffrage, members cluster.Peers) error {
	if !m.doubted || answer == raftstore.Stranger {
		return nil
	}
	if err := m.agree(id.Founders, members); err != nil {
		return err
	}
	m.doubted = false
	if !m.entering {
		m.settle()
	}
	return nil
}

// begin announces, once, that the cluster has had a leader: a replica that starts without a
// log after that has missed entries.
func (m *membership) begin() error {
	if m.began || m.store.Stats().Last <= 1 {
		return nil
	}
	if err := m.store.Remember(func(id *raftstore.Identity) { id.Began = true }); err != nil {
		return err
	}
	if err := m.gossip.Update(func(self *gossip.Member) { self.Initialized = true }); err != nil {
		return err
	}
	m.began = true
	return nil
}

// compareVersions announces a new version of the cluster, and notes since when versions are mixed.
func (m *membership) compareVersions(now time.Time) error {
	mixed := false
	m.store.View(func(st *state.State) { mixed = api.Mixed(m.directory.View(), st) })
	if !mixed {
		m.mixedSince.Store(nil)
	} else if m.mixedSince.Load() == nil {
		m.mixedSince.Store(&now)
	}
	version := m.store.Version()
	if version == m.version {
		return nil
	}
	if err := m.gossip.Update(func(self *gossip.Member) { self.ClusterVersion = uint64(version) }); err != nil {
		return err
	}
	m.log.Info("working with a version of the cluster", "cluster_version", version)
	m.version = version
	return nil
}

// application is this replica's request to the leader. A voter only asks whether it is still a
// voter.
func (m *membership) application(id raftstore.Identity) raftstore.Applicant {
	a := m.self
	a.Votes = !m.flags.nonVoter && !id.Voter && !id.Demoted
	return a
}

// take acts on the leader's answer.
func (m *membership) take(id raftstore.Identity, answer raftstore.Suffrage) error {
	switch answer {
	case raftstore.Stranger:
		return fmt.Errorf("replica %s: %w: its folder may be deleted; to add it again, start it with an empty folder and run weir cluster add %s --address %s",
			m.self.ID, errRemoved, m.self.ID, m.self.Address)
	case raftstore.Voter:
		if !m.doubted {
			m.settle()
		}
		return m.store.Remember(func(id *raftstore.Identity) { id.Voter, id.Demoted = true, false })
	}
	if id.Voter {
		m.log.Info("membership: this replica was demoted and does not vote until it is promoted")
	}
	if id.Voter || id.Demoted || m.flags.nonVoter {
		m.settle()
	}
	return m.store.Remember(func(id *raftstore.Identity) { id.Voter, id.Demoted = false, id.Demoted || id.Voter })
}

// ask sends the application `a` to the leader. If another replica leads, it also returns the
// members.
func (m *membership) ask(ctx context.Context, a raftstore.Applicant) (raftstore.Suffrage, cluster.Peers, error) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	view := m.directory.View()
	if string(view.Leader) == m.self.ID {
		if m.store == nil {
			return raftstore.Stranger, nil, errors.New("other replicas still consider this one the leader")
		}
		answer, err := m.store.Admit(ctx, a)
		return answer, nil, err
	}
	leader, known := view.Replica(view.Leader)
	address := leader.Address
	if !known || m.lost {
		// Gossip is for members, which this replica may no longer be. Any replica knows the leader.
		if address = m.anyone(); address == "" {
			return raftstore.Stranger, nil, errors.New("no leader is known")
		}
	}
	answer, err := m.join(ctx, address, a)
	var refused *connect.Error
	if errors.As(err, &refused) {
		if hint := refused.Meta().Get(apipb.HeaderLeader); hint != "" && hint != address {
			address = hint
			answer, err = m.join(ctx, address, a)
		}
	}
	if m.lost = err != nil; m.lost {
		return raftstore.Stranger, nil, fmt.Errorf("ask leader at %s: %w", address, err)
	}
	var members []raftstore.Member
	for _, member := range answer.Msg.GetMembers() {
		members = append(members, raftstore.Member{ID: member.GetId(), Address: member.GetAddress()})
	}
	return raftstore.Suffrage(answer.Msg.GetSuffrage()), peersOf(members), nil
}

// join sends the application `a` to the replica at an address.
func (m *membership) join(ctx context.Context, address string, a raftstore.Applicant) (*connect.Response[apipb.JoinResponse], error) {
	service := apipbconnect.NewClusterServiceClient(m.http, m.dialer.URL(address), connect.WithGRPC())
	return service.Join(ctx, connect.NewRequest(&apipb.JoinRequest{Id: a.ID, Address: a.Address, Empty: a.Empty, Votes: a.Votes, Can: a.Can}))
}

// anyone returns the address of another replica, of a different one each time; empty if none is
// known.
func (m *membership) anyone() string {
	known := slices.Clone(m.peers)
	if m.store != nil {
		if members, err := m.store.Members(); err == nil {
			known = append(known, peersOf(members)...)
		}
	}
	known = slices.DeleteFunc(known, func(p cluster.Peer) bool { return string(p.ID) == m.self.ID || p.Address == m.self.Address })
	if len(known) == 0 {
		return ""
	}
	m.turn++
	return known[m.turn%len(known)].Address
}

func peersOf(members []raftstore.Member) cluster.Peers {
	peers := make(cluster.Peers, 0, len(members))
	for _, m := range members {
		peers = append(peers, cluster.Peer{ID: scheduling.ReplicaID(m.ID), Address: m.Address})
	}
	slices.SortFunc(peers, func(a, b cluster.Peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

// folder returns the configuration of this replica's folder.
func (s *server) folder() raftstore.Config {
	cfg := raftstore.Default()
	cfg.Dir, cfg.ClusterID, cfg.ReplicaID, cfg.Logger = raftDir(s.flags.data), s.protection.cluster, s.flags.id, s.log
	return cfg
}

// rebuild moves the folder aside, if that is asked for and its state is wrong or its data are damaged.
func (s *server) rebuild() error {
	if !s.flags.rebuild {
		return nil
	}
	aside, why, err := raftstore.Rebuild(s.folder())
	switch {
	case err != nil:
		return err
	case aside != "":
		s.log.Warn("data moved aside; getting the state from the other replicas", "dir", aside, "reason", why)
	default:
		s.log.Info("nothing to rebuild: the data are in order")
	}
	return nil
}

// hashes carries hashes of states by gossip.
type hashes struct {
	gossip *gossip.Gossip
	log    *slog.Logger
	warned sync.Once
}

// Tell implements raftstore.Hashes.
func (h *hashes) Tell(own raftstore.StateHash) {
	err := h.gossip.Update(func(m *gossip.Member) { m.StateIndex, m.StateHash = own.Index, string(own.Hash[:]) })
	switch {
	case errors.Is(err, gossip.ErrTooLarge):
		h.warned.Do(func() {
			h.log.Warn("hash of the state not told; this replica's state is not compared with others", "error", err)
		})
	case err != nil:
		h.log.Debug("hash of the state not told", "error", err)
	}
}

// Told implements raftstore.Hashes.
func (h *hashes) Told() map[string]raftstore.StateHash {
	told := make(map[string]raftstore.StateHash)
	for _, m := range h.gossip.Members() {
		if len(m.StateHash) == len(state.Hash{}) {
			told[string(m.ID)] = raftstore.StateHash{Index: m.StateIndex, Hash: state.Hash([]byte(m.StateHash))}
		}
	}
	return told
}
