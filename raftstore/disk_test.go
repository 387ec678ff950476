package raftstore

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/versions"
)

// fatalErrors collects what would have ended the process.
type fatalErrors struct {
	mu   sync.Mutex
	errs []error
	told chan struct{}
}

func newFatalErrors() *fatalErrors { return &fatalErrors{told: make(chan struct{}, 10)} }

func (f *fatalErrors) fatal(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
	f.told <- struct{}{}
}

func openTestDisk(t *testing.T, dir string, fatal *fatalErrors) *disk {
	t.Helper()
	c := newCluster(t, 1, nil)
	cfg := c.config("r1")
	cfg.Dir = dir
	cfg.Fatal = fatal.fatal
	d, err := openDisk(cfg, newRaftLogger(cfg.Logger))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func testEntry(t *testing.T, index uint64) *raft.Log {
	t.Helper()
	data, err := proto.Marshal(&commandpb.Entry{Commands: removals(t, "a")})
	if err != nil {
		t.Fatal(err)
	}
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data, Extensions: checksum(data)}
}

func TestDamagedEntryIsFatal(t *testing.T) {
	damaged := testEntry(t, 2)
	damaged.Data[len(damaged.Data)-1] ^= 1
	t.Run("when it is read", func(t *testing.T) {
		fatal := newFatalErrors()
		d := openTestDisk(t, t.TempDir(), fatal)
		if err := d.files.StoreLog(seal(damaged)); err != nil {
			t.Fatal(err)
		}
		if err := d.GetLog(2, new(raft.Log)); !errors.Is(err, ErrDamaged) || len(fatal.errs) != 1 {
			t.Errorf("got %v, fatal %v", err, fatal.errs)
		}
	})
	t.Run("when it comes from another replica", func(t *testing.T) {
		fatal := newFatalErrors()
		d := openTestDisk(t, t.TempDir(), fatal)
		if err := d.StoreLog(damaged); !errors.Is(err, ErrDamaged) || len(fatal.errs) != 1 {
			t.Errorf("got %v, fatal %v", err, fatal.errs)
		}
		if last, err := d.LastIndex(); err != nil || last != 1 {
			t.Errorf("the log ends at %d, %v: it was stored", last, err)
		}
	})
}

func TestFailedWriteIsTheLast(t *testing.T) {
	fatal := newFatalErrors()
	d := openTestDisk(t, t.TempDir(), fatal)
	broken := errors.New("input/output error")
	if err := d.write("log entries", &d.doubt, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := d.StoreLog(testEntry(t, 2)); !errors.Is(err, broken) {
		t.Errorf("a write after a failed one: got %v", err)
	}
	if err := d.SetUint64([]byte("CurrentTerm"), 9); !errors.Is(err, broken) {
		t.Errorf("a vote after a failed write: got %v", err)
	}
	if last, err := d.LastIndex(); err != nil || last != 1 {
		t.Errorf("the log ends at %d, %v: something was written after a failed write", last, err)
	}
	if len(fatal.errs) != 1 {
		t.Errorf("fatal was told %d times: %v", len(fatal.errs), fatal.errs)
	}
}

func TestHangingDiskIsFatal(t *testing.T) {
	fatal := newFatalErrors()
	d := openTestDisk(t, t.TempDir(), fatal)
	d.stall = time.Millisecond
	err := d.write("log entries", &d.doubt, func() error {
		<-fatal.told // hangs until the watchdog has seen it
		return nil
	})
	if !errors.Is(err, ErrDisk) {
		t.Errorf("got %v: a write after the disk was given up must not be acknowledged", err)
	}
}

// slowFiles take their time for every change.
type slowFiles struct {
	files
	takes time.Duration
}

func (f slowFiles) StoreLogs([]*raft.Log) error { <-time.After(f.takes); return nil }

func (f slowFiles) DeleteRange(_, _ uint64) error { <-time.After(f.takes); return nil }

func (f slowFiles) Set(_, _ []byte) error { <-time.After(f.takes); return nil }

// TestOnlyLogEntriesRaiseDoubts has writes take three quarters of the limit: votes and
// a compaction keep no entry from the followers.
func TestOnlyLogEntriesRaiseDoubts(t *testing.T) {
	for name, test := range map[string]struct {
		write      func(*disk) error
		wantDoubts uint64
	}{
		"log entries":  {func(d *disk) error { return d.StoreLog(&raft.Log{Index: 1, Type: raft.LogNoop}) }, 1},
		"a compaction": {func(d *disk) error { return d.DeleteRange(1, 2) }, 0},
		"a vote":       {func(d *disk) error { return d.SetUint64(keyTerm, 7) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told atomic.Uint64
				d := &disk{files: slowFiles{takes: 3 * time.Second / 4}, stall: time.Second, fatal: func(err error) { t.Error(err) }}
				d.doubt.tell = func() { told.Add(1) }
				written := make(chan error)
				go func() { written <- test.write(d) }()
				<-time.After(d.stall * 6 / 10)
				if d.doubtful() != (test.wantDoubts > 0) {
					t.Errorf("doubtful while it is written: %t", d.doubtful())
				}
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				if doubts := d.stats(time.Now()).Doubts; doubts != test.wantDoubts || told.Load() != test.wantDoubts || d.doubtful() {
					t.Errorf("%d doubts, told %d, doubtful still: %t; want %d", doubts, told.Load(), d.doubtful(), test.wantDoubts)
				}
			})
		})
	}
}

// TestLogThatIsBeingWritten by another process may be in any state, and is not damaged.
func TestLogThatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), logFile)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := openBolt(path); errors.Is(err, ErrDamaged) || !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got %v, want that another process has it open", err)
	}
}

// unreadable files make whoever reads them fall.
type unreadable struct{ files }

func (unreadable) FirstIndex() (uint64, error) { panic("page 7 is no leaf") }

func (unreadable) Get([]byte) ([]byte, error) { panic("page 7 is no leaf") }

func TestDiskThatCannotBeReadIsRefused(t *testing.T) {
	cfg := Default()
	cfg.Dir, cfg.ClusterID, cfg.ReplicaID, cfg.Fatal = t.TempDir(), "test", "r1", func(err error) { t.Error(err) }
	cfg.spoil = func(f files) files { return unreadable{f} }
	if _, err := openDisk(cfg, newRaftLogger(slog.New(slog.DiscardHandler))); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

// putSnapshot makes a snapshot without data.
func putSnapshot(t *testing.T, dir, name string, meta any) {
	t.Helper()
	path := filepath.Join(dir, "snapshots", name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "meta.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// spoiledFolder is the folder of a replica with one thing wrong.
type spoiledFolder struct {
	spoil func(t *testing.T, dir string, d *raftboltdb.BoltStore)
	want  string

	wantErr error
}

// refuseFolders opens each folder, and expects to be told what is wrong.
func refuseFolders(t *testing.T, cases map[string]spoiledFolder) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, nil)
			cfg := c.config("r1")
			cfg.Transport = Transport{Listener: c.wires["r1"], Dial: c.wires["r1"].dial}
			if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			bolt, err := raftboltdb.NewBoltStore(filepath.Join(cfg.Dir, logFile))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := claim(cfg.Dir, cfg.ClusterID, cfg.ReplicaID); err == nil {
				t.Fatal("a log without an owner was accepted")
			}
			if err := (Identity{Format: versions.Oldest, Cluster: cfg.ClusterID, Replica: cfg.ReplicaID}).write(cfg.Dir); err != nil {
				t.Fatal(err)
			}
			test.spoil(t, cfg.Dir, bolt)
			if err := bolt.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(cfg); !errors.Is(err, test.wantErr) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %v with %q", err, test.wantErr, test.want)
			}
		})
	}
}

func TestFoldersThatAreRefused(t *testing.T) {
	refuseFolders(t, map[string]spoiledFolder{
		"another replica's": {
			spoil: func(t *testing.T, dir string, _ *raftboltdb.BoltStore) {
				rewriteIdentity(t, dir, func(id *Identity) { id.Replica = "r2" })
			},
			want: `belongs to replica "r2", not to "r1"`, wantErr: ErrForeign,
		},
		"another cluster's": {
			spoil: func(t *testing.T, dir string, _ *raftboltdb.BoltStore) {
				rewriteIdentity(t, dir, func(id *Identity) { id.Cluster = "other" })
			},
			want: `belongs to cluster "other", but this replica to "test"`, wantErr: ErrForeign,
		},
		"one of a newer version": {
			spoil: func(t *testing.T, dir string, _ *raftboltdb.BoltStore) {
				rewriteIdentity(t, dir, func(id *Identity) { id.Format = versions.Current + 1 })
			},
			want: "it needs cluster version 3, but this program (weir 0.2.0) works with cluster versions 1 to 2: start a newer weir", wantErr: ErrUnreadable,
		},
		"a log whose owner is not known": {
			spoil: func(t *testing.T, dir string, _ *raftboltdb.BoltStore) {
				if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
					t.Fatal(err)
				}
			},
			want: "replica.json is missing", wantErr: ErrDamaged,
		},
		"a snapshot that cannot be read": {
			spoil: func(t *testing.T, dir string, _ *raftboltdb.BoltStore) { putSnapshot(t, dir, "1-5-1", "no object") },
			want:  "move the folder away", wantErr: ErrDamaged,
		},
		"a log that starts after the snapshot": {
			spoil: func(t *testing.T, _ string, d *raftboltdb.BoltStore) {
				if err := d.StoreLog(testEntry(t, 9)); err != nil {
					t.Fatal(err)
				}
			},
			want: "the log starts at index 9, but the snapshot ends at index 0", wantErr: ErrDamaged,
		},
	})
}

func rewriteIdentity(t *testing.T, dir string, change func(*Identity)) {
	t.Helper()
	id, err := ReadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	change(&id)
	if err := id.write(dir); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	c := startCluster(t, 1, nil)
	c.propose(createPool(t, testPool))
	if err := c.leader().raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	c.stop("r1")
	files, err := filepath.Glob(filepath.Join(c.dir, "r1", "snapshots", "*", "state.bin"))
	if err != nil || len(files) != 1 {
		t.Fatalf("snapshots %v, %v", files, err)
	}
	if err := os.Truncate(files[0], 10); err != nil {
		t.Fatal(err)
	}
	cfg := c.config("r1")
	cfg.Transport = Transport{Listener: newCluster(t, 1, nil).wires["r1"], Dial: c.wires["r1"].dial}
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "snapshot") {
		t.Errorf("got %v", err)
	}
}

func TestInterruptedWorkIsFinished(t *testing.T) {
	dir := t.TempDir()
	bolt, err := raftboltdb.NewBoltStore(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	// A bootstrap that got as far as the term, and half a snapshot.
	early := &disk{files: bolt, dir: dir, stall: patience}
	identity := Identity{Format: versions.Oldest, Cluster: "test", Replica: "r1"}
	if err := errors.Join(identity.write(dir), early.SetUint64(keyTerm, 1), bolt.Close()); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, "snapshots", "1-5-1.tmp")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	d := openTestDisk(t, dir, newFatalErrors())
	if last, err := d.LastIndex(); err != nil || last != 1 || !d.bootstrapped {
		t.Errorf("the log ends at %d, %v, bootstrapped %v", last, err, d.bootstrapped)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("half a snapshot is still there: %v", err)
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	tests := map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"no folder":                 {func(c *Config) { c.Dir = "" }, "dir is empty"},
		"no cluster":                {func(c *Config) { c.ClusterID = "" }, "cluster id is empty"},
		"no id":                     {func(c *Config) { c.ReplicaID = "" }, "replica id is empty"},
		"no transport":              {func(c *Config) { c.Transport = Transport{} }, "transport needs"},
		"not among its peers":       {func(c *Config) { c.InitialPeers = []Peer{{"x", "y"}} }, "do not list this replica"},
		"listed twice":              {func(c *Config) { c.InitialPeers = append(c.InitialPeers, c.InitialPeers[0]) }, "listed twice"},
		"another address":           {func(c *Config) { c.Address = "elsewhere:1" }, "this replica's address is elsewhere:1"},
		"a lease above a heartbeat": {func(c *Config) { c.Timeouts.Lease = c.Timeouts.Heartbeat + 1 }, "below the lease timeout"},
		"no batch":                  {func(c *Config) { c.BatchMaxCommands = 0 }, "batch of 0 commands"},
		"an entry below a batch":    {func(c *Config) { c.EntryMaxBytes = 1 }, "smaller than one batch"},
		"no log before a snapshot":  {func(c *Config) { c.SnapshotLogBytes = 0 }, "snapshot after 0 bytes of log"},
		"no log behind a snapshot":  {func(c *Config) { c.TrailingBytes = -1 }, "-1 bytes of log behind a snapshot"},
		"no log cache":              {func(c *Config) { c.LogCacheBytes = 0 }, "log cache of 0 bytes"},
		"no requests":               {func(c *Config) { c.AppendBytes = 0 }, "requests of 0 bytes"},
		"no watch buffer":           {func(c *Config) { c.WatchBuffer = 0 }, "watch buffer of 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, nil)
			cfg := c.config("r1")
			cfg.Transport = Transport{Listener: c.wires["r1"], Dial: c.wires["r1"].dial}
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			test.spoil(&cfg)
			if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
