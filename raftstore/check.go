package raftstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"weir/messages/commandpb"
	"weir/messages/versions"
	"weir/raftstore/command"
	"weir/raftstore/state"
)

// Replicas compare their states, because a bug, a bad memory chip or another version of the program could
// have one of them come to another state than the others.
//
// From time to time the leader puts a point into the log. Each replica hashes its state as it is right
// there, in the background, and tells the others. Once a majority of the voters have told the same hash,
// the leader puts it into the log as the verdict on that point. The leader has no say beyond its own vote:
// it may be the one that is wrong. A replica whose hash is another one than that of the verdict stops
// (see diverged.go). Where a majority is lacking, there is no verdict, and the next point decides.

// StateHash is the hash of a replica's state right after a point in the log.
type StateHash struct {
	Index uint64
	Hash  state.Hash
}

// Hashes carries hashes of states between the replicas.
type Hashes interface {
	// Tell tells the others the hash that this replica has come to. It must not block.
	Tell(StateHash)
	// Told returns the last hash that each other replica has told, by replica.
	Told() map[string]StateHash
}

// noHashes are the Hashes of a replica that has no way to tell others.
type noHashes struct{}

// Tell implements Hashes.
func (noHashes) Tell(StateHash) {}

// Told implements Hashes.
func (noHashes) Told() map[string]StateHash { return nil }

// CheckStats are figures about comparisons of states.
type CheckStats struct {
	// Hashed is the last hash that this replica has taken, and Took how long that took, of a state of
	// which Encoded records had changed since the hash before.
	Hashed  StateHash
	Took    time.Duration
	Encoded int
	// Agreed is the index of the last point at which this replica's state was that of the majority, and
	// AgreedAt the time of that verdict.
	Agreed   uint64
	AgreedAt time.Time
	// Differences counts the points at which this replica, as the leader, has seen states differ.
	Differences uint64
	// Dispute says how states differ, if no replica stops for it: those of the voters at the last point, if
	// none has a majority, or that of the only voter and that in its log.
	Dispute string
}

// point is a point in the log at which states are compared.
type point struct {
	index uint64
	began time.Time
	// frozen is the state at the point, until it is known to be right. own is its hash, once that is known.
	frozen *state.Frozen
	own    *state.Hash
	// verdict is the hash that the majority has, once that is known, and judged the time of the verdict.
	verdict *state.Hash
	judged  time.Time
	// reported is what was logged of differences.
	reported string
}

// checks are the points that a machine has passed.
type checks struct {
	hashes Hashes
	// wrong is called, in a goroutine of its own, with the first point at which the state is wrong; right
	// with each at which another replica's is.
	wrong, right func(*point)
	fail         func(error)

	// closing is closed with the store.
	closing  chan struct{}
	stopping atomic.Bool
	working  sync.WaitGroup
	// changes is set if a command has come after the last point.
	changes atomic.Bool

	mu sync.Mutex
	// halted is set while the state counts as wrong, and closed if the replica goes on nevertheless.
	halted chan struct{}
	// hasher has seen the states since the last restore.
	hasher *state.Hasher
	// last is the newest point, hashing the one whose state is being hashed; either may be nil.
	last, hashing *point
	stats         CheckStats
}

func newChecks(hashes Hashes) *checks {
	c := &checks{hashes: hashes, closing: make(chan struct{})}
	c.restored()
	return c
}

// begin has a store act on what the comparisons find.
func (c *checks) begin(s *Store) {
	c.wrong, c.right = checker{s}.diverged, checker{s}.agreed
	c.fail = func(err error) { s.cfg.Logger.Error("state not hashed", "error", err) }
}

// pause ends a hash that nobody waits for any more.
func (c *checks) pause() error {
	if c.stopping.Load() {
		return ErrClosed
	}
	return nil
}

// restored begins anew with another state.
func (c *checks) restored() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hasher, c.last = state.NewHasher(c.pause), nil
	c.changes.Store(true)
}

// changed takes note that the state may have changed since the last point.
func (c *checks) changed() { c.changes.Store(true) }

// passed takes note of a point or a verdict that was applied at an index, and has led to a state.
func (c *checks) passed(index uint64, cmd *commandpb.CheckState, s *state.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(cmd.GetHash()) == 0 {
		c.changes.Store(false)
		c.last = &point{index: index, began: time.Now(), frozen: s.Freeze()}
		c.work()
		return
	}
	verdict := state.Hash(cmd.GetHash())
	for _, p := range []*point{c.last, c.hashing} {
		if p != nil && p.index == cmd.GetIndex() && p.verdict == nil {
			p.verdict, p.judged = &verdict, cmd.GetTime().AsTime()
			c.judge(p)
		}
	}
}

// work hashes the state at the newest point, unless another one is being hashed. c.mu is held.
func (c *checks) work() {
	p, hasher := c.last, c.hasher
	if c.hashing != nil || p == nil || p.own != nil || c.stopping.Load() {
		return
	}
	c.hashing = p
	c.working.Go(func() {
		begin := time.Now()
		hash, err := hasher.Hash(p.frozen)
		if err == nil {
			c.hashes.Tell(StateHash{p.index, hash})
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hashing = nil
		switch {
		case err != nil:
			if !c.stopping.Load() {
				c.fail(fmt.Errorf("index %d: %w", p.index, err))
			}
			return
		case hasher == c.hasher:
			p.own = &hash
			c.stats.Hashed, c.stats.Took, c.stats.Encoded = StateHash{p.index, hash}, time.Since(begin), hasher.Encoded
			c.judge(p)
		}
		// Meanwhile there may be a newer point.
		c.work()
	})
}

// judge compares the state at a point with the verdict, once both are known. c.mu is held.
func (c *checks) judge(p *point) {
	if p.own == nil || p.verdict == nil {
		return
	}
	if *p.own == *p.verdict {
		if p.index > c.stats.Agreed {
			c.stats.Agreed, c.stats.AgreedAt, c.stats.Dispute = p.index, p.judged, ""
		}
		for _, told := range c.hashes.Told() {
			if told.Index == p.index && told.Hash != *p.verdict {
				kept := *p
				c.working.Go(func() { c.right(&kept) })
				break
			}
		}
		p.frozen = nil
		return
	}
	if c.halted == nil {
		c.halted = make(chan struct{})
		c.working.Go(func() { c.wrong(p) })
	}
}

// pass waits, if the state is wrong, until the store closes: nobody may see more of it.
func (c *checks) pass() {
	if halted := c.halt(); halted != nil {
		select {
		case <-c.closing:
		case <-halted:
		}
	}
}

// halt returns a channel that is closed if the replica goes on although its state counted as wrong; nil if it
// does not.
func (c *checks) halt() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.halted
}

// stop ends what is under way, also a wait in pass. It may be called once.
func (c *checks) stop() {
	c.stopping.Store(true)
	close(c.closing)
}

// read returns figures about comparisons of states.
func (c *checks) read() CheckStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

const (
	// checkLooks is how often within CheckPeriod a leader looks at what the others have told, but at least
	// every checkLook.
	checkLooks = 20
	checkLook  = time.Second
	// checkGrace is how long a verdict waits for the other voters once a majority has told the same, so
	// that a replica that differs is named.
	checkGrace = 2 * time.Second
)

// checker puts points and verdicts into the log, while the replica leads, and ends a replica that is wrong.
type checker struct{ *Store }

// watch runs until the store closes.
func (s checker) watch() {
	if s.cfg.CheckPeriod <= 0 {
		return
	}
	ticker := time.NewTicker(max(min(s.cfg.CheckPeriod/checkLooks, checkLook), time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.closing:
			return
		}
		if s.raft.State() != raft.Leader || !s.known() {
			continue
		}
		next := s.next(time.Now())
		if next == nil {
			continue
		}
		cmd, err := command.New(next)
		if err == nil {
			_, err = s.Propose(s.transport.stream.ctx, cmd)
		}
		if err != nil {
			s.cfg.Logger.Debug("states not checked; will retry", "error", err)
		}
	}
}

// known reports whether the version of the cluster has CheckState.
func (s checker) known() bool {
	return versions.Newer(&commandpb.CheckState{}, s.machine.version.Load()) == ""
}

// next returns what to put into the log now; nil: nothing.
func (s checker) next(now time.Time) *commandpb.CheckState {
	c := s.machine.checks
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.halted != nil {
		return nil
	}
	since := s.opened
	if p := c.last; p != nil {
		since = p.began
		if p.verdict == nil {
			found := s.count(p)
			s.report(p, found)
			if found.decides(now.Sub(p.began) >= min(checkGrace, s.cfg.CheckPeriod/2)) {
				return &commandpb.CheckState{Index: p.index, Hash: found.most[:]}
			}
		}
	}
	if c.changes.Load() && now.Sub(since) >= s.cfg.CheckPeriod {
		return &commandpb.CheckState{}
	}
	return nil
}

// count counts the hashes that voters have told for a point, this replica's own included.
func (s checker) count(p *point) votes {
	told := make(map[string]StateHash)
	maps.Copy(told, s.cfg.Hashes.Told())
	delete(told, s.cfg.ReplicaID)
	if p.own != nil {
		told[s.cfg.ReplicaID] = StateHash{p.index, *p.own}
	}
	return count(s.voters(), told, p.index)
}

// report logs once how voters differ at a point. c.mu is held.
func (s checker) report(p *point, found votes) {
	if found.differ == 0 || p.reported == found.text {
		return
	}
	c := s.machine.checks
	if p.reported == "" {
		c.stats.Differences++
	}
	p.reported = found.text
	if found.hopeless() {
		c.stats.Dispute = fmt.Sprintf("at index %d: %s", p.index, found.text)
	}
	s.cfg.Logger.Error("replicas differ in their states", "index", p.index, "hashes", found.text)
}

// votes are what the voters have told about a point.
type votes struct {
	// most is the hash that most voters have told: votes of them. differ have told another one, silent none.
	most                  state.Hash
	votes, differ, silent int
	needed                int
	text                  string
}

// count counts the hashes that voters have told for a point.
func count(voters []raft.ServerID, told map[string]StateHash, index uint64) votes {
	found := votes{needed: len(voters)/2 + 1}
	counts := make(map[state.Hash]int)
	var parts []string
	for _, id := range slices.Sorted(slices.Values(voters)) {
		if said := told[string(id)]; said.Index == index {
			counts[said.Hash]++
			parts = append(parts, fmt.Sprintf("%s %s", id, said.Hash))
		} else {
			found.silent++
		}
	}
	for _, hash := range slices.SortedFunc(maps.Keys(counts), func(a, b state.Hash) int { return cmp.Compare(string(a[:]), string(b[:])) }) {
		if counts[hash] > found.votes {
			found.most, found.votes = hash, counts[hash]
		}
	}
	found.differ, found.text = len(voters)-found.silent-found.votes, strings.Join(parts, ", ")
	return found
}

// decides reports whether a majority has told the same, and all have told something or there was time enough.
func (v votes) decides(late bool) bool { return v.votes >= v.needed && (v.silent == 0 || late) }

// hopeless reports whether no hash can get a majority, whatever the silent voters tell.
func (v votes) hopeless() bool { return v.votes+v.silent < v.needed }
