package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"weir/messages/versions"
)

// folderStep changes the folder of a replica.
type folderStep = func(t *testing.T, dir string)

// withIdentity writes the identity of a replica into a folder.
func withIdentity(id Identity) folderStep {
	return func(t *testing.T, dir string) {
		id.Format, id.Cluster, id.Replica = versions.Oldest, "test", "r1"
		if err := id.write(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// withFile writes a file.
func withFile(name string, data []byte) folderStep {
	return func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// withFolder makes a folder.
func withFolder(name string) folderStep {
	return func(t *testing.T, dir string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// withLog makes a log and fills it.
func withLog(name string, fill func(*disk) error) folderStep {
	return func(t *testing.T, dir string) {
		bolt, err := openBolt(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(fill(&disk{files: bolt, dir: dir, stall: patience}), bolt.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// emptyLog fills a log with nothing.
func emptyLog(*disk) error { return nil }

// begins fills a log with the first entry of a cluster of these replicas.
func begins(replicas ...string) func(*disk) error {
	var list raft.Configuration
	for i, id := range replicas {
		list.Servers = append(list.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(fmt.Sprint("a:", i))})
	}
	return func(d *disk) error {
		entry := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(list)}
		return errors.Join(d.SetUint64(keyTerm, 1), d.StoreLog(entry))
	}
}

// folderCase is what is done to the folder of a replica before it starts, and what comes of it.
type folderCase struct {
	steps   []folderStep
	wantErr error
	want    string
}

// openFolders starts a replica in each folder.
func openFolders(t *testing.T, cases map[string]folderCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, nil)
			dir := filepath.Join(c.dir, "r1")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, step := range test.steps {
				step(t, dir)
			}
			if test.wantErr == nil {
				c.start("r1")
				c.propose(createPool(t, testPool))
				if left, err := filepath.Glob(filepath.Join(dir, "*"+tmpSuffix)); err != nil || len(left) > 0 {
					t.Errorf("%v is left, %v", left, err)
				}
				return
			}
			cfg := c.config("r1")
			cfg.Transport = Transport{Listener: c.wires["r1"], Dial: c.wires["r1"].dial}
			_, err := Open(cfg)
			if !errors.Is(err, test.wantErr) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want %v of %s with %q", err, test.wantErr, dir, test.want)
			}
		})
	}
}

// TestFoldersThatACrashLeaves opens what each moment of the first start leaves when
// the replica dies in it: a folder starts anew.
func TestFoldersThatACrashLeaves(t *testing.T) {
	openFolders(t, map[string]folderCase{
		"an empty folder":            {},
		"half an identity":           {steps: []folderStep{withFile(identityFile+tmpSuffix, []byte(`{"for`))}},
		"an identity alone":          {steps: []folderStep{withIdentity(Identity{})}},
		"the list of founders":       {steps: []folderStep{withIdentity(Identity{Founders: "r1=a:1"})}},
		"an empty log in the making": {steps: []folderStep{withIdentity(Identity{}), withFile(logFile+tmpSuffix, nil)}},
		"half a log in the making":   {steps: []folderStep{withIdentity(Identity{}), withFile(logFile+tmpSuffix, make([]byte, 5000))}},
		"a log in its own folder":    {steps: []folderStep{withIdentity(Identity{}), withFolder(logFile + ".17" + tmpSuffix), withLog(filepath.Join(logFile+".17"+tmpSuffix, logFile), emptyLog)}},
		"a log not yet in its place": {steps: []folderStep{withIdentity(Identity{}), withLog(logFile+tmpSuffix, emptyLog)}},
		"a log in both places":       {steps: []folderStep{withIdentity(Identity{}), withLog(logFile+tmpSuffix, emptyLog), withLog(logFile, emptyLog)}},
		"a log of no bytes":          {steps: []folderStep{withIdentity(Identity{}), withFile(logFile, nil)}},
		"a log without a term":       {steps: []folderStep{withIdentity(Identity{}), withLog(logFile, emptyLog)}},
		"a term and no entry":        {steps: []folderStep{withIdentity(Identity{}), withLog(logFile, func(d *disk) error { return d.SetUint64(keyTerm, 1) })}},
		"the first entry":            {steps: []folderStep{withIdentity(Identity{}), withLog(logFile, begins("r1"))}},
		"snapshots not yet made":     {steps: []folderStep{withIdentity(Identity{}), withLog(logFile, begins("r1")), func(_ *testing.T, dir string) { _ = os.RemoveAll(filepath.Join(dir, "snapshots")) }}},
	})
}

// TestFoldersThatLostData opens what others have begun, and what a disk that loses data
// makes of a folder: it is refused by name.
func TestFoldersThatLostData(t *testing.T) {
	openFolders(t, map[string]folderCase{
		"the first entry of others":   {steps: []folderStep{withIdentity(Identity{}), withLog(logFile, begins("r1", "r2", "r3"))}, wantErr: ErrForeign, want: "was bootstrapped with the peers r1=a:0,r2=a:1,r3=a:2, but the configured peers differ: start the replica with the peers in the log, or with an empty folder"},
		"an identity of no bytes":     {steps: []folderStep{withFile(identityFile, nil)}, wantErr: ErrDamaged, want: identityFile},
		"a log and no identity":       {steps: []folderStep{withLog(logFile, emptyLog)}, wantErr: ErrDamaged, want: identityFile + " is missing"},
		"a log of zeros":              {steps: []folderStep{withIdentity(Identity{}), withFile(logFile, make([]byte, 1<<16))}, wantErr: ErrDamaged, want: logFile},
		"a log of some bytes":         {steps: []folderStep{withIdentity(Identity{}), withFile(logFile, make([]byte, 100))}, wantErr: ErrDamaged, want: logFile},
		"a log that was cut":          {steps: []folderStep{withIdentity(Identity{}), withLog(logFile, begins("r1")), cut(logFile, 2*os.Getpagesize())}, wantErr: ErrDamaged, want: logFile},
		"a log emptied in later life": {steps: []folderStep{withIdentity(Identity{Began: true}), withFile(logFile, nil)}, wantErr: ErrDamaged, want: "missing or empty"},
		"a log gone in later life":    {steps: []folderStep{withIdentity(Identity{Began: true})}, wantErr: ErrDamaged, want: "missing or empty"},
	})
}

// cut leaves the front of a file.
func cut(name string, size int) folderStep {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, name), int64(size)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoMakeALog has another process make the log at the same time: its log stays.
func TestTwoMakeALog(t *testing.T) {
	dir := t.TempDir()
	if err := makeLog(dir, Identity{}); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	bolt, err := raftboltdb.NewBoltStore(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	defer bolt.Close()
	if err := makeLog(dir, Identity{}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(filepath.Join(dir, logFile)); err != nil || !os.SameFile(before, after) {
		t.Errorf("the log of the other process was replaced: %v", err)
	}
}

// TestManyMakeALog has several processes begin at the same time: none is in the way of
// another, and one log is left.
func TestManyMakeALog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, logFile)
	const starters = 8
	made := make(chan error, starters)
	for range starters {
		go func() { made <- putLog(dir, path) }()
	}
	for range starters {
		if err := <-made; err != nil {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || !slices.Equal(left, []string{path}) {
		t.Errorf("%v is left, %v", left, err)
	}
	// What cannot be made is told, whoever has made one.
	if err := putLog(filepath.Join(dir, "gone"), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// TestDamagedPagesAreRefused flips bits in the number that each page of a log
// carries: bbolt alone would fall over that, where nobody can catch it.
func TestDamagedPagesAreRefused(t *testing.T) {
	c := startCluster(t, 1, nil)
	c.propose(createPool(t, testPool))
	c.stop("r1")
	whole, err := os.ReadFile(filepath.Join(c.dir, "r1", logFile))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), logFile)
	refused := 0
	for page := 2 * os.Getpagesize(); page < len(whole); page += os.Getpagesize() {
		flipped := bytes.Clone(whole)
		flipped[page] ^= 1 << 5
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		bolt, err := openBolt(path)
		if err == nil {
			// The page is in no use.
			if err := bolt.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		refused++
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("a bit of page %d flipped: got %v, want ErrDamaged", page/os.Getpagesize(), err)
		}
	}
	if refused == 0 {
		t.Errorf("none of %d damaged pages was found", len(whole)/os.Getpagesize())
	}
}
