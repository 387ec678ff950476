package raftstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore/state"
)

func raiseTo(t testing.TB, version uint32) *commandpb.Command {
	return mustCommand(t, &commandpb.RaiseVersion{Version: version})
}

// TestNewerCommandsAreRefused (V2): what is newer than the version of the cluster does not get into the log.
func TestNewerCommandsAreRefused(t *testing.T) {
	c := startCluster(t, 1, nil)
	defer versions.Plant(versions.Row{Name: "weir.command.v1.EditTree", Since: 2})()
	leader := c.leader()
	last := leader.Stats().Last
	wantRefused := func(want string, commands ...*commandpb.Command) {
		t.Helper()
		results, err := leader.Propose(testContext(t), commands...)
		if err != nil || len(results) != len(commands) {
			t.Fatalf("%d results, %v", len(results), err)
		}
		for _, result := range results {
			if got := result.GetRefusal(); got.GetCode() != state.CodeNewerVersion || !strings.Contains(got.GetMessage(), want) {
				t.Errorf("got %v, want %q", got, want)
			}
		}
	}
	wantRefused("weir.command.v1.EditTree needs a newer version of the cluster than 1: raise it first: weir cluster upgrade finish",
		raiseTo(t, 1), createPool(t, testPool))
	// The leader itself could not apply it.
	wantRefused("it needs cluster version 3", raiseTo(t, 3))
	if now := leader.Stats().Last; now != last {
		t.Errorf("the log grew from %d to %d", last, now)
	}
	c.propose(raiseTo(t, 2))
	wantAccepted(t, c.propose(createPool(t, testPool)))
}

// TestEntriesCarryTheirVersion (V2): an entry with something new says which version reads it, also when calls with
// and without share it; other entries are as they always were.
func TestEntriesCarryTheirVersion(t *testing.T) {
	b, log := testBatcher(t, nil)
	push := func(commands ...*commandpb.Command) {
		c, err := newCall(time.Now(), commands, 1<<20)
		if err == nil {
			err = b.queue.push(c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// next answers the entry in flight and returns it.
	next := func() *commandpb.Entry {
		var entry commandpb.Entry
		if err := proto.Unmarshal(<-log.entries, &entry); err != nil {
			t.Fatal(err)
		}
		f := <-log.futures
		for range entry.GetCommands() {
			f.results = append(f.results, &commandpb.Result{})
		}
		close(f.answered)
		return &entry
	}
	push(removals(t, "a")...)
	first := <-log.entries // in flight: what follows gathers
	log.entries <- first
	push(raiseTo(t, 2))
	push(removals(t, "b")...)
	if got := next(); got.GetVersion() != 0 || len(got.GetCommands()) != 1 {
		t.Errorf("an old command: %v", got)
	}
	if got := next(); got.GetVersion() != 2 || len(got.GetCommands()) != 2 {
		t.Errorf("a new command and an old one: %v", got)
	}
	push(raiseTo(t, 7))
	if got := next(); got.GetVersion() != 7 {
		t.Errorf("a raise to version 7: %v", got)
	}
}

// TestUnreadableEntriesStopTheReplica (V2): at an entry that needs a newer program, or is of an unknown kind, the
// replica has applied what came before, says which program can read it, and applies and keeps nothing more.
func TestUnreadableEntriesStopTheReplica(t *testing.T) {
	entry := func(index uint64, e *commandpb.Entry) *raft.Log {
		data, err := proto.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return &raft.Log{Index: index, Term: 4, Type: raft.LogCommand, Data: data}
	}
	pool := func(name string) *commandpb.Entry {
		return &commandpb.Entry{Commands: []*commandpb.Command{createPool(t, name)}}
	}
	for story, test := range map[string]struct {
		unreadable *commandpb.Entry
		want       string
	}{
		"an entry of a newer version": {&commandpb.Entry{Version: 3, Commands: []*commandpb.Command{{Kind: 99}}}, "log entry at index 17 of term 4"},
		"which names its version":     {&commandpb.Entry{Version: 3}, "it needs cluster version 3, but this program (weir 0.2.0) works with cluster versions 1 to 2: start a newer weir"},
		"an unknown kind":             {&commandpb.Entry{Commands: []*commandpb.Command{{Kind: 99}}}, "unknown kind of command: start the version of weir that the other replicas run"},
		"a retired kind":              {&commandpb.Entry{Commands: []*commandpb.Command{{Kind: 15}}}, "retired kind of command"},
	} {
		t.Run(story, func(t *testing.T) {
			var stopped []error
			cfg := Default()
			cfg.Fatal = func(err error) { stopped = append(stopped, err) }
			m := newMachine(cfg)
			answers := m.apply([]*raft.Log{entry(16, pool("a")), entry(17, test.unreadable), entry(18, pool("b"))})
			if len(stopped) != 1 || !errors.Is(stopped[0], ErrUnreadable) || !strings.Contains(stopped[0].Error(), test.want) {
				t.Fatalf("stopped with %v, want %q", stopped, test.want)
			}
			if answers[0] == nil || answers[1] != nil || answers[2] != nil {
				t.Errorf("answers %v, want one for the first entry only", answers)
			}
			m.apply([]*raft.Log{entry(19, pool("c"))})
			if index := m.state.LastIndex(); index != 16 || len(stopped) != 1 {
				t.Errorf("applied up to %d, stopped %d times", index, len(stopped))
			}
			if _, err := (fsm{machine: m}).Snapshot(); !errors.Is(err, ErrUnreadable) {
				t.Errorf("a snapshot of a stopped replica: %v", err)
			}
		})
	}
}

// TestReplicasStopAtWhatTheyCannotRead (V2): replicas that have an entry of a newer leader in their logs say once what
// can read it, can be closed, and stop at it again when they are started again.
func TestReplicasStopAtWhatTheyCannotRead(t *testing.T) {
	told := make(chan error, 8)
	c := startCluster(t, 3, func(cfg *Config) { cfg.Fatal = func(err error) { told <- err } })
	c.propose(createPool(t, testPool))
	entry, err := proto.Marshal(&commandpb.Entry{Version: 3, Commands: []*commandpb.Command{{Kind: 99}}})
	if err != nil {
		t.Fatal(err)
	}
	leader, before := c.leader(), uint64(0)
	leader.View(func(s *state.State) { before = s.LastIndex() })
	future := leader.appendEntry(entry)
	wantTold := func(times int) {
		t.Helper()
		for range times {
			if err := <-told; !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "it needs cluster version 3") {
				t.Errorf("told %v", err)
			}
		}
	}
	if err := future.Error(); err != nil {
		t.Fatal(err)
	}
	wantTold(1)
	if _, err := leader.Propose(testContext(t), createPool(t, "later")); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("a proposal after that: %v", err)
	}
	leader.View(func(s *state.State) {
		if s.LastIndex() != before {
			t.Errorf("applied up to %d, want %d", s.LastIndex(), before)
		}
	})
	wantTold(2)
	for _, p := range c.peers {
		c.stop(p.ID)
	}
	c.startAll()
	wantTold(3)
}

// TestRaisedVersionIsKept (V2): each replica notes the version in its folder, and it survives snapshots, backups and
// restarts.
func TestRaisedVersionIsKept(t *testing.T) {
	c := startCluster(t, 3, nil)
	for id, s := range c.stores {
		if s.Version() != 1 || s.Identity().Format != 1 {
			t.Errorf("%s begins with version %d, format %d", id, s.Version(), s.Identity().Format)
		}
	}
	wantAccepted(t, c.propose(raiseTo(t, 2)))
	c.wantEqual()
	// It is noted after the entry has been applied.
	for id, s := range c.stores {
		waitUntil(t, id+" keeps the version", func() bool {
			kept, err := ReadIdentity(s.cfg.Dir)
			return s.Version() == 2 && err == nil && kept.Format == 2
		})
	}
	var backup bytes.Buffer
	if err := c.leader().Backup(&backup); err != nil {
		t.Fatal(err)
	}
	folder := Founder{Dir: t.TempDir() + "/new", Cluster: "other", ID: "r1", Address: "h:1"}
	info, err := Restore(bytes.NewReader(backup.Bytes()), folder)
	if kept, readErr := ReadIdentity(folder.Dir); err != nil || readErr != nil || info.Version != 2 || kept.Format != 2 {
		t.Errorf("restored: %v, %v; keeps %v, %v", info, err, kept, readErr)
	}
	follower := c.follower().cfg.ReplicaID
	if err := c.stores[follower].raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c.stop(follower)
	// A crash may come between the entry and the note.
	rewriteIdentity(t, c.config(follower).Dir, func(id *Identity) { id.Format = 1 })
	s := c.start(follower)
	waitUntil(t, "the version is back", func() bool { return s.Version() == 2 && s.Identity().Format == 2 })
}

// TestVersionsOfFolders (V2): a folder of a version that a program does not read is refused, with what reads it.
func TestVersionsOfFolders(t *testing.T) {
	dir := t.TempDir()
	if err := (Identity{Format: 1, Cluster: "c", Replica: "r1"}).write(dir); err != nil {
		t.Fatal(err)
	}
	for story, test := range map[string]struct {
		program versions.Range
		want    string
	}{
		"read":                {versions.Range{Oldest: 1, Newest: 2}, ""},
		"of its own version":  {versions.Range{Oldest: 1, Newest: 1}, ""},
		"that is too old now": {versions.Range{Oldest: 2, Newest: 3}, "it has cluster version 1, but this program (weir 0.2.0) works with cluster versions 2 to 3: start weir 0.2.0, and finish the upgrade with it"},
	} {
		t.Run(story, func(t *testing.T) {
			_, err := readIdentity(dir, test.program)
			if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestVersionsOfSnapshots (V2): of a snapshot, and so of a backup.
func TestVersionsOfSnapshots(t *testing.T) {
	_, old := smallSnapshot(t)
	s, _, err := readSnapshot(bytes.NewReader(old))
	if err != nil || s.Version() != 1 {
		t.Fatalf("a snapshot of version 1: %v", err)
	}
	state.ApplyBy(s, s.LastIndex()+1, nil, &commandpb.RaiseVersion{Version: 2})
	now := encode(t, s)
	for story, test := range map[string]struct {
		data    []byte
		program versions.Range
		want    string
	}{
		"old, read by this":   {old, versions.Program, ""},
		"of now, read by it":  {now, versions.Program, ""},
		"of now, by an older": {now, versions.Range{Oldest: 1, Newest: 1}, "it needs cluster version 2"},
		"old, by a later one": {old, versions.Range{Oldest: 2, Newest: 3}, "it has cluster version 1"},
	} {
		t.Run(story, func(t *testing.T) {
			_, _, err := readSnapshotAs(bytes.NewReader(test.data), test.program, nil)
			if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, ErrSnapshotFormat) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestSnapshotsOfALeaderThatIsNewer (V2): a follower that cannot read the snapshot that its leader sends stops.
func TestSnapshotsOfALeaderThatIsNewer(t *testing.T) {
	var stopped []error
	cfg := Default()
	cfg.Fatal = func(err error) { stopped = append(stopped, err) }
	m := newMachine(cfg)
	m.running.Store(true)
	var sent bytes.Buffer
	header := &statepb.Record{Record: &statepb.Record_Header{Header: &statepb.SnapshotHeader{Format: 4, Version: 3}}}
	if _, err := writeSnapshot(&sent, func(yield func(*statepb.Record, []byte) error) error { return yield(header, nil) }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.restore(bytes.NewReader(sent.Bytes())); !errors.Is(err, ErrSnapshotFormat) {
			t.Errorf("restored: %v", err)
		}
	}
	if len(stopped) != 1 || !strings.Contains(stopped[0].Error(), "it needs cluster version 3") {
		t.Errorf("stopped with %v, once", stopped)
	}
}

// TestReplicasThatAreTooOld (V2): the leader admits no replica whose program does not know the version.
func TestReplicasThatAreTooOld(t *testing.T) {
	c := startCluster(t, 1, nil)
	leader := c.leader()
	if err := leader.AddReplica(testContext(t), "r2", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	admit := func(can uint32) (Suffrage, error) {
		return leader.Admit(testContext(t), Applicant{ID: "r2", Address: "127.0.0.1:1", Empty: true, Votes: true, Can: can})
	}
	if is, err := admit(0); err != nil || is != NonVoter {
		t.Errorf("at version 1: %q, %v", is, err)
	}
	wantAccepted(t, c.propose(raiseTo(t, 2)))
	if _, err := admit(1); !errors.Is(err, ErrMembership) || !strings.Contains(err.Error(), "replica r2 is too old: its program works with cluster version 1, but the cluster has version 2: install weir 0.2.0 or later there") {
		t.Errorf("one that is too old: %v", err)
	}
	if is, err := admit(2); err != nil || is != NonVoter {
		t.Errorf("one that is new enough: %q, %v", is, err)
	}
}
