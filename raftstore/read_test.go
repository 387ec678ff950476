package raftstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/hashicorp/raft"

	"weir/messages/commandpb"
)

// registerInput is a write of value, or a read.
type registerInput struct {
	write bool
	value int
}

// register is what a pool's weight must be like, seen from outside.
var register = porcupine.Model{
	Init: func() any { return 1 },
	Step: func(current, input, output any) (bool, any) {
		if in := input.(registerInput); in.write {
			return true, in.value
		}
		return output == current, current
	},
}

// unanswered is when a write ends of which its client knows nothing.
const unanswered = 24 * time.Hour

// TestReadsAreLinearizable writes and reads while the lead moves about, by
// transfers and by cuts, and has the history checked.
func TestReadsAreLinearizable(t *testing.T) {
	c := startCluster(t, 3, restless)
	c.propose(createPool(t, testPool), setWeight(t, 1))
	stores := []*Store{c.stores["r1"], c.stores["r2"], c.stores["r3"]}
	ctx, stop := context.WithTimeout(t.Context(), 3*patience)
	defer stop()
	h := &registerHistory{begin: time.Now()}
	var wg sync.WaitGroup
	for client := range 6 {
		wg.Go(func() { h.call(ctx, t, client, stores) })
	}
	for change := range 8 {
		leader := c.leader()
		for !h.has(100*(change+1)) && ctx.Err() == nil {
			if _, err := leader.ReadIndex(ctx); err != nil {
				leader = c.leader()
			}
		}
		if ctx.Err() != nil {
			t.Error("the clients do not get on")
			break
		}
		moveLead(ctx, c, leader, change%2 == 0)
	}
	stop()
	wg.Wait()
	if result := porcupine.CheckOperationsTimeout(register, withKnownEnds(h.operations), patience); result != porcupine.Ok {
		t.Errorf("history of %d operations: %v", len(h.operations), result)
	}
	t.Logf("%d operations, term %d", len(h.operations), c.leader().Stats().Term)
	c.wantEqual()
}

// registerHistory is what clients did to a register.
type registerHistory struct {
	mu         sync.Mutex
	operations []porcupine.Operation
	values     int
	begin      time.Time
}

// has says whether there are n operations.
func (h *registerHistory) has(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.operations) >= n
}

// call reads and writes the weight through any of the stores until ctx ends.
func (h *registerHistory) call(ctx context.Context, t *testing.T, client int, stores []*Store) {
	for ctx.Err() == nil {
		s, other := stores[rand.IntN(3)], stores[rand.IntN(3)]
		input, output := registerInput{write: rand.IntN(2) == 0}, 0
		if h.mu.Lock(); input.write {
			h.values++
			input.value = h.values + 1
		}
		h.mu.Unlock()
		call := time.Since(h.begin)
		var err error
		if input.write {
			var results []*commandpb.Result
			results, err = s.Propose(ctx, setWeight(t, input.value))
			if err == nil && results[0].GetRefusal() != nil {
				t.Errorf("refused: %v", results[0].GetRefusal())
			}
		} else {
			output, err = readWeight(ctx, s, other)
		}
		answered := time.Since(h.begin)
		switch {
		case err != nil && (!input.write || !errors.Is(err, ErrOutcomeUnknown)):
			continue // nothing happened
		case err != nil:
			// May happen at any later time.
			answered = unanswered
		}
		h.mu.Lock()
		h.operations = append(h.operations, porcupine.Operation{
			ClientId: client, Input: input, Output: output, Call: int64(call), Return: int64(answered),
		})
		h.mu.Unlock()
	}
}

// moveLead has another replica lead, by a transfer or by cutting the leader off.
func moveLead(ctx context.Context, c *cluster, leader *Store, transfer bool) {
	if transfer {
		// A transfer may fail when the lead moves by itself.
		_ = leader.Transfer(ctx, "")
		return
	}
	id := leader.cfg.ReplicaID
	c.wires[id].setCut(true)
	for current, changed := leader.Leadership(); current.Leader; current, changed = leader.Leadership() {
		<-changed
	}
	c.wires[id].setCut(false)
}

// withKnownEnds says of writes without an answer what reads tell: one whose value was read
// had happened when the first of these reads was answered, and one that nobody has read
// may as well come last. Without that the search for an order may take for ever.
func withKnownEnds(operations []porcupine.Operation) []porcupine.Operation {
	firstRead := map[int]int64{}
	for _, op := range operations {
		if value, read := op.Output.(int); read && !op.Input.(registerInput).write {
			if first, ok := firstRead[value]; !ok || op.Return < first {
				firstRead[value] = op.Return
			}
		}
	}
	var known []porcupine.Operation
	for _, op := range operations {
		if op.Return == int64(unanswered) {
			read, ok := firstRead[op.Input.(registerInput).value]
			if !ok {
				continue
			}
			op.Return = read
		}
		known = append(known, op)
	}
	return known
}

// readWeight takes the index from leader and reads on another replica.
func readWeight(ctx context.Context, leader, replica *Store) (int, error) {
	index, err := leader.ReadIndex(ctx)
	if err != nil {
		return 0, err
	}
	if err := replica.WaitApplied(ctx, index); err != nil {
		return 0, err
	}
	return weightOf(replica), nil
}

// TestPausedLeaderDoesNotReadOldState pauses a leader until another one has been
// elected and has written. When the old one wakes up, the first thing it sees is
// an answer from before the pause, which must not confirm that it leads.
func TestPausedLeaderDoesNotReadOldState(t *testing.T) {
	c := startCluster(t, 3, func(cfg *Config) {
		if restless(cfg); cfg.ReplicaID == "r1" { // does not notice the pause by itself
			cfg.Timeouts = Timeouts{Heartbeat: patience, Election: patience, Lease: patience, RPC: patience}
		}
	})
	ctx := testContext(t)
	c.propose(createPool(t, testPool), setWeight(t, 1))
	paused := c.stores["r1"]
	c.insist("r1 leads", func(ctx context.Context, leader *Store) error {
		if leader != paused {
			return errors.Join(errors.New("another one does"), leader.Transfer(ctx, "r1"))
		}
		index, err := paused.ReadIndex(ctx)
		if err != nil {
			return err
		}
		return paused.WaitApplied(ctx, index)
	})
	c.wires["r1"].requests.hold()
	c.wires["r1"].answers.hold()
	delete(c.stores, "r1")
	wantAccepted(t, c.propose(setWeight(t, 2)))
	c.stores["r1"] = paused

	asked := make(chan error)
	go func() { asked <- paused.raft.VerifyLeader().Error() }()
	read := make(chan error)
	go func() {
		_, err := paused.ReadIndex(ctx)
		read <- err
	}()
	for range 30 {
		// Raft answers in turn, so the questions are with it after a few more.
		if err := paused.raft.BootstrapCluster(raft.Configuration{}).Error(); !errors.Is(err, raft.ErrCantBootstrap) {
			t.Error(err)
		}
	}
	c.wires["r1"].answers.release()
	t.Logf("raft's own confirmation: %v", <-asked)
	if err := <-read; !errors.Is(err, ErrNotLeader) {
		t.Errorf("a leader that was replaced while it was paused: got %v, want ErrNotLeader", err)
	}
	c.wires["r1"].requests.release()
	c.wantEqual()
	if got := weightOf(paused); got != 2 {
		t.Errorf("got weight %d after the pause, want 2", got)
	}
}

func TestReadIndexNamesWhatCanBeWaitedFor(t *testing.T) {
	c := startCluster(t, 3, nil)
	created := c.propose(createPool(t, testPool))[0].GetIndex()
	leader := c.leader()
	ctx := testContext(t)
	// Entries of raft's own follow, which no replica's state is told of.
	for range 3 {
		if err := leader.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
	}
	index, err := leader.ReadIndex(ctx)
	if err != nil || index != created {
		t.Errorf("got index %d, %v, want %d", index, err, created)
	}
	if last := leader.Stats().Last; last <= created {
		t.Errorf("the log ends at %d: this test shows nothing", last)
	}
	// Nor while the state lags behind the log.
	lagging := &Store{machine: newMachine(Config{WatchBuffer: 1, Logger: leader.cfg.Logger}), log: leader.log}
	if got, err := lagging.lastCommand(leader.Stats().Last); err != nil || got != created {
		t.Errorf("with a lagging state: got index %d, %v, want %d", got, err, created)
	}
	// Nor when a snapshot has swallowed them all.
	if err := leader.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if err := leader.disk.DeleteRange(1, leader.Stats().Last); err != nil {
		t.Fatal(err)
	}
	if got, err := leader.lastCommand(leader.Stats().Last); err != nil || got != created {
		t.Errorf("behind a snapshot: got index %d, %v, want %d", got, err, created)
	}
}

func TestFollowedSince(t *testing.T) {
	now := time.Now()
	before, after := now.Add(-time.Second), now.Add(time.Second)
	three := []raft.ServerID{"r1", "r2", "r3"}
	tests := map[string]struct {
		acks   map[raft.ServerID]ack
		voters []raft.ServerID
		want   bool
	}{
		"alone":                          {nil, three[:1], true},
		"nobody answered":                {nil, three, false},
		"one of two others is enough":    {map[raft.ServerID]ack{"r3": {term: 5, sent: after}}, three, true},
		"sent at the same moment":        {map[raft.ServerID]ack{"r3": {term: 5, sent: now}}, three, true},
		"sent before the question":       {map[raft.ServerID]ack{"r2": {term: 5, sent: before}, "r3": {term: 5, sent: before}}, three, false},
		"of another term":                {map[raft.ServerID]ack{"r2": {term: 4, sent: after}, "r3": {term: 6, sent: after}}, three, false},
		"one of five is no majority":     {map[raft.ServerID]ack{"r2": {term: 5, sent: after}}, append(three, "r4", "r5"), false},
		"who has no vote does not count": {map[raft.ServerID]ack{"r9": {term: 5, sent: after}}, three, false},
		"and neither does a leader without one": {
			map[raft.ServerID]ack{"r2": {term: 5, sent: after}, "r3": {term: 5, sent: after}}, three[1:], false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			transport := &transport{acks: test.acks}
			if got := transport.followedSince("r1", test.voters, 5, now); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAcksOnlyGrow(t *testing.T) {
	now := time.Now()
	transport := &transport{acks: map[raft.ServerID]ack{}, near: map[raft.ServerID]time.Time{}, news: make(chan struct{})}
	for _, a := range []ack{{term: 2, sent: now}, {term: 2, sent: now.Add(-time.Second)}, {term: 1, sent: now.Add(time.Second)}} {
		transport.acked("r2", a, 0)
	}
	if got := transport.acks["r2"]; got != (ack{term: 2, sent: now}) {
		t.Errorf("got %+v", got)
	}
}
