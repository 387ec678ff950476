package raftstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"weir/messages/commandpb"
	"weir/messages/versions"
	"weir/raftstore/state"
)

// talk carries hashes between the replicas of a test.
type talk struct {
	mu   sync.Mutex
	told map[string]StateHash
}

// of returns what one replica has of it.
func (t *talk) of(replica string) Hashes { return talker{t, replica} }

type talker struct {
	*talk
	self string
}

func (t talker) Tell(h StateHash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[t.self] = h
}

func (t talker) Told() map[string]StateHash {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.told)
}

// checked is a cluster whose replicas compare their states often, and the errors with which they end.
type checked struct {
	*cluster
	talk  *talk
	ended chan ending
}

type ending struct {
	replica string
	err     error
}

// checkedCluster makes a cluster of n replicas. Their periods are far shorter than that of a real cluster.
func checkedCluster(t *testing.T, n int, tune func(*Config)) *checked {
	c := &checked{talk: &talk{told: make(map[string]StateHash)}, ended: make(chan ending, n)}
	c.cluster = newCluster(t, n, func(cfg *Config) {
		id := cfg.ReplicaID
		cfg.CheckPeriod, cfg.Hashes = 40*time.Millisecond, c.talk.of(id)
		cfg.Fatal = func(err error) { c.ended <- ending{id, err} }
		if tune != nil {
			tune(cfg)
		}
	})
	c.startAll()
	c.propose(mustCommand(t, &commandpb.RaiseVersion{Version: versions.Current}), createPool(t, testPool))
	return c
}

// drift adds a group to the state of one replica alone.
func drift(t *testing.T, s *Store, group string) {
	t.Helper()
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	result, _ := s.machine.state.Apply(s.machine.state.LastIndex(), &commandpb.EditGroup{Group: group, Add: []string{"ann"}})
	if result.GetRefusal() != nil {
		t.Fatal(result.GetRefusal())
	}
}

// agree writes until every running replica has passed a verdict after what was written first. One that gets a
// snapshot may miss points.
func (c *checked) agree() {
	c.tb.Helper()
	begin, writes := uint64(0), 0
	c.await("all replicas agree", func() bool {
		writes++
		index := c.propose(setWeight(c.tb, 100+writes))[0].GetIndex()
		begin = cmp.Or(begin, index)
		for _, s := range c.running() {
			if s.Stats().Checks.Agreed <= begin {
				return false
			}
		}
		return true
	})
}

func (c *checked) await(what string, holds func() bool) {
	c.tb.Helper()
	for end := time.Now().Add(patience); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.tb.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// TestReplicasThatAgree restarts replicas, has them take snapshots and restore them, and hands the lead on: none
// ever differs.
func TestReplicasThatAgree(t *testing.T) {
	c := checkedCluster(t, 3, func(cfg *Config) {
		restless(cfg)
		cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.TrailingLogs = 20, 20*time.Millisecond, 5
	})
	for round := range 6 {
		c.agree()
		id := c.peers[round%3].ID
		if round == 2 {
			if err := c.leader().Transfer(testContext(t), ""); err != nil && !errors.Is(err, ErrNotLeader) {
				t.Fatal(err)
			}
		}
		c.stop(id)
		for i := range 60 {
			c.propose(setWeight(t, 1+i))
		}
		c.start(id)
	}
	c.agree()
	c.wantEqual()
	for _, s := range c.running() {
		if n := s.Stats().Checks.Differences; n > 0 {
			t.Errorf("%s saw %d differences", s.cfg.ReplicaID, n)
		}
	}
	select {
	case e := <-c.ended:
		t.Errorf("%s ended: %v", e.replica, e.err)
	default:
	}
}

// TestReplicaThatDiffers has one replica come to another state: a follower, or the leader. It ends, and the others
// go on; its folder is of no use until it is rebuilt, and then it is like the others.
func TestReplicaThatDiffers(t *testing.T) {
	for who, pick := range map[string]func(*checked) *Store{
		"a follower": func(c *checked) *Store { return c.follower() },
		"the leader": func(c *checked) *Store { return c.leader() },
	} {
		t.Run(who, func(t *testing.T) {
			// The verdict waits for the hash of each for half a period, so that all know who differs.
			c := checkedCluster(t, 3, func(cfg *Config) { cfg.CheckPeriod = time.Second })
			c.agree()
			wrong := pick(c)
			id := wrong.cfg.ReplicaID
			drift(t, wrong, "drift")
			passed := wrong.Stats().Checks.Agreed
			c.propose(setWeight(t, 7))
			e := <-c.ended
			if e.replica != id || !errors.Is(e.err, ErrDiverged) || !strings.Contains(e.err.Error(), "--rebuild") {
				t.Fatalf("%s ended with %v, want %s to diverge", e.replica, e.err, id)
			}
			if wrong.raft.State() == raft.Leader {
				t.Error("it still leads")
			}
			c.stop(id)
			c.wantAside(id, passed)
			if _, err := Open(c.folder(id)); !errors.Is(err, ErrDiverged) {
				t.Fatalf("its folder was opened: %v", err)
			}
			aside, why, err := Rebuild(c.config(id))
			if err != nil || !errors.Is(why, ErrDiverged) || aside == "" || !Rebuilt(c.config(id).Dir) {
				t.Fatalf("rebuild: %q, %v, %v", aside, why, err)
			}
			c.readmit(id)
			c.agree()
			c.wantEqual()
		})
	}
}

// folder returns the configuration of a replica that is not to be started.
func (c *checked) folder(id string) Config {
	cfg := c.config(id)
	w := &wire{listener: listen(c.tb)}
	cfg.Transport = Transport{Listener: w, Dial: w.dial}
	return cfg
}

// readmit starts a replica whose folder is empty as a server does.
func (c *checked) readmit(id string) {
	c.tb.Helper()
	address := c.config(id).Address
	ctx := testContext(c.tb)
	c.insist("admit it without a log", func(ctx context.Context, leader *Store) error {
		_, err := leader.Admit(ctx, Applicant{ID: id, Can: versions.Current, Address: address, Empty: true})
		return err
	})
	tune := c.tune
	c.tune = func(cfg *Config) { tune(cfg); cfg.InitialPeers = nil }
	c.start(id)
	c.tune = tune
	c.await("it votes again", func() bool {
		is, err := c.leader().Admit(ctx, Applicant{ID: id, Can: versions.Current, Address: address, Votes: true})
		return err == nil && is == Voter
	})
}

// wantAside looks for the state that differs, and for that of another replica at the same index.
func (c *checked) wantAside(id string, after uint64) {
	c.tb.Helper()
	found, err := filepath.Glob(filepath.Join(c.dir, id, divergedPrefix+"*"+snapshotSuffix))
	if err != nil || len(found) != 1 {
		c.tb.Fatalf("states kept: %v, %v", found, err)
	}
	var index uint64
	if _, err := fmt.Sscanf(filepath.Base(found[0]), divergedPrefix+"%d"+snapshotSuffix, &index); err != nil || index <= after {
		c.tb.Fatalf("%s: %v, want an index after %d", found[0], err, after)
	}
	file, err := os.Open(found[0])
	if err != nil {
		c.tb.Fatal(err)
	}
	defer file.Close()
	kept, _, err := readSnapshot(file)
	if err != nil || kept.LastIndex() != index {
		c.tb.Fatalf("%s: %v", found[0], err)
	}
	lines := func(path string) []string {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	theirs := lines(strings.TrimSuffix(found[0], snapshotSuffix) + hashesSuffix)
	c.await("another replica keeps its state at the same index", func() bool {
		for _, p := range c.peers {
			others := lines(filepath.Join(c.dir, p.ID, fmt.Sprint(agreedPrefix, index, hashesSuffix)))
			if p.ID == id || others == nil {
				continue
			}
			more := slices.DeleteFunc(slices.Clone(theirs), func(line string) bool { return slices.Contains(others, line) })
			if len(more) != 1 || !strings.HasPrefix(more[0], `group "drift" `) {
				c.tb.Fatalf("records that differ: %q, want the group", more)
			}
			return true
		}
		return false
	})
}

// TestStatesWithoutAMajority has all three replicas differ: none ends, and the leader says so.
func TestStatesWithoutAMajority(t *testing.T) {
	c := checkedCluster(t, 3, nil)
	c.agree()
	leader := c.leader()
	for n, s := range c.running() {
		for i := range n {
			drift(t, s, fmt.Sprint("drift", i))
		}
	}
	c.propose(setWeight(t, 7))
	c.await("the leader sees it", func() bool { return strings.Count(leader.Stats().Checks.Dispute, ", ") == 2 })
	if n := leader.Stats().Checks.Differences; n == 0 {
		t.Error("no difference is counted")
	}
	if len(c.ended) > 0 {
		t.Errorf("a replica ended: %v", <-c.ended)
	}
}

// TestLoneReplica checks its state against its own log when it starts again.
func TestLoneReplica(t *testing.T) {
	c := checkedCluster(t, 1, nil)
	c.agree()
	c.stop("r1")
	c.start("r1")
	c.agree()
	if n := len(c.ended); n > 0 {
		t.Errorf("it ended: %v", <-c.ended)
	}
}

// TestLoneReplicaThatDiffers goes on, because there is no other that could have the right state, and says so.
func TestLoneReplicaThatDiffers(t *testing.T) {
	c := checkedCluster(t, 1, nil)
	c.agree()
	s := c.leader()
	verdict := state.Hash{1}
	c.await("a point waits for its verdict, which is wrong", func() bool {
		s.machine.mu.Lock()
		defer s.machine.mu.Unlock()
		checks := s.machine.checks
		checks.mu.Lock()
		defer checks.mu.Unlock()
		p := checks.last
		if p == nil || p.verdict != nil || p.own == nil {
			checks.changes.Store(true)
			return false
		}
		p.verdict = &verdict
		checks.judge(p)
		return true
	})
	c.await("it says so", func() bool { return s.Stats().Checks.Dispute != "" })
	c.propose(setWeight(t, 77))
	if n := len(c.ended); n > 0 {
		t.Errorf("it ended: %v", <-c.ended)
	}
}

// TestNothingIsComparedWhenNothingHappens waits for a point after the last command, and then for none.
func TestNothingIsComparedWhenNothingHappens(t *testing.T) {
	c := checkedCluster(t, 1, nil)
	c.agree()
	s := c.leader()
	c.await("the last command is checked", func() bool { return !s.machine.checks.changes.Load() })
	if next := (checker{s}).next(time.Now().Add(time.Hour)); next != nil && len(next.GetHash()) == 0 {
		t.Errorf("another point: %v", next)
	}
	s.machine.checks.changed()
	if next := (checker{s}).next(time.Now().Add(time.Hour)); next == nil {
		t.Error("no point after a change")
	}
}

// TestVotes counts what voters have told.
func TestVotes(t *testing.T) {
	a, b, d := state.Hash{1}, state.Hash{2}, state.Hash{3}
	const at = 9
	for story, test := range map[string]struct {
		told map[string]StateHash
		want string
		// decides is said before voters that are silent had time enough, and after.
		early, late, hopeless bool
		differ                int
	}{
		"all alike":                 {told: map[string]StateHash{"r1": {at, a}, "r2": {at, a}, "r3": {at, a}}, early: true, late: true},
		"one differs":               {told: map[string]StateHash{"r1": {at, b}, "r2": {at, a}, "r3": {at, a}}, early: true, late: true, differ: 1},
		"one is silent":             {told: map[string]StateHash{"r2": {at, a}, "r3": {at, a}}, late: true},
		"one is behind":             {told: map[string]StateHash{"r1": {at - 1, b}, "r2": {at, a}, "r3": {at, a}}, late: true},
		"two are silent":            {told: map[string]StateHash{"r2": {at, a}}},
		"two differ, one is silent": {told: map[string]StateHash{"r1": {at, a}, "r2": {at, b}}, differ: 1},
		"all differ":                {told: map[string]StateHash{"r1": {at, a}, "r2": {at, b}, "r3": {at, d}}, hopeless: true, differ: 2},
		"others have no vote":       {told: map[string]StateHash{"r1": {at, a}, "r4": {at, a}, "r5": {at, a}}},
	} {
		t.Run(story, func(t *testing.T) {
			found := count([]raft.ServerID{"r1", "r2", "r3"}, test.told, at)
			if found.decides(false) != test.early || found.decides(true) != test.late || found.hopeless() != test.hopeless || found.differ != test.differ {
				t.Errorf("%+v: decides %t, late %t, hopeless %t", found, found.decides(false), found.decides(true), found.hopeless())
			}
			if (test.early || test.late) && found.most != a {
				t.Errorf("%s has the majority, want %s", found.most, a)
			}
		})
	}
}

// TestRebuildOfADamagedFolder moves a folder aside in which a bit has changed, and no other.
func TestRebuildOfADamagedFolder(t *testing.T) {
	c := newCluster(t, 1, nil)
	cfg := c.config("r1")
	if aside, why, err := Rebuild(cfg); aside != "" || why != nil || err != nil {
		t.Fatalf("a folder that was never used: %q, %v, %v", aside, why, err)
	}
	c.startAll()
	c.propose(createPool(t, testPool))
	if _, _, err := Rebuild(cfg); err == nil {
		t.Error("the folder of a replica that runs was rebuilt")
	}
	c.stop("r1")
	if aside, why, err := Rebuild(cfg); aside != "" || why != nil || err != nil {
		t.Fatalf("a folder that is in order: %q, %v, %v", aside, why, err)
	}
	other := cfg
	other.ReplicaID = "r2"
	if aside, _, err := Rebuild(other); aside != "" || !errors.Is(err, ErrForeign) {
		t.Fatalf("the folder of another replica: %q, %v", aside, err)
	}
	path := filepath.Join(cfg.Dir, identityFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("r1"), []byte("r9"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	aside, why, err := Rebuild(cfg)
	if err != nil || !errors.Is(why, ErrDamaged) {
		t.Fatalf("a damaged folder: %q, %v, %v", aside, why, err)
	}
	if _, err := os.Stat(filepath.Join(aside, logFile)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(cfg.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}
