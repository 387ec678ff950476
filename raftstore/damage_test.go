package raftstore

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlippedBitsAreFoundOrHarmless flips bits all over a replica's folder. Either
// the folder is refused, with a word on what to do, or the bits were in no use.
func TestFlippedBitsAreFoundOrHarmless(t *testing.T) {
	c := startCluster(t, 1, nil)
	c.propose(createPool(t, testPool))
	if err := c.leader().raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	for weight := range 20 {
		c.propose(setWeight(t, weight+1))
	}
	c.stop("r1")
	whole := filepath.Join(c.dir, "r1")
	refused := map[string]int{}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, file := range filesIn(t, whole) {
		data, err := os.ReadFile(filepath.Join(whole, file))
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			// Half of them at the front, where what counts is dense.
			at := rng.IntN(len(data))
			if rng.IntN(2) == 0 {
				at = rng.IntN(min(len(data), 128))
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			flipped := bytes.Clone(data)
			flipped[at] ^= 1 << rng.IntN(8)
			if err := os.WriteFile(filepath.Join(dir, file), flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			weight, err := weightIn(t, dir)
			switch {
			case err == nil && weight != 20:
				t.Errorf("%s with a bit of byte %d flipped: opened with weight %d, want 20", file, at, weight)
			case err == nil:
			case errors.Is(err, ErrForeign), errors.Is(err, ErrUnreadable):
				t.Errorf("%s with a bit of byte %d flipped: taken for another one's: %v", file, at, err)
			case !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrSnapshotDamaged):
				t.Errorf("%s with a bit of byte %d flipped: got %v, want ErrDamaged", file, at, err)
			case errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "move the folder away"):
				t.Errorf("%s: no word on what to do: %v", file, err)
			default:
				refused[filepath.Base(file)]++
			}
		}
	}
	for _, file := range []string{logFile, identityFile, "state.bin", snapshotMeta, snapshotMetaSum} {
		if refused[file] == 0 {
			t.Errorf("no flipped bit in %s was found", file)
		}
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// weightIn opens a copy of a replica's folder and returns the weight in it.
func weightIn(t *testing.T, dir string) (int, error) {
	t.Helper()
	c := newCluster(t, 1, nil)
	cfg := c.config("r1")
	cfg.Dir = dir
	// It says what is wrong; the test reads it from the error, or from here.
	fatal := newFatalErrors()
	cfg.Fatal = fatal.fatal
	cfg.Transport = Transport{Listener: c.wires["r1"], Dial: c.wires["r1"].dial}
	s, err := Open(cfg)
	if err != nil {
		return 0, err
	}
	c.stores["r1"] = s
	c.leader()
	weight := weightOf(s)
	c.stop("r1")
	return weight, nil
}

func TestBackupIsRestored(t *testing.T) {
	c := startCluster(t, 3, nil)
	c.propose(createPool(t, testPool), setWeight(t, 7))
	c.wantEqual()
	var backup bytes.Buffer
	if err := c.follower().Backup(&backup); err != nil {
		t.Fatal(err)
	}
	info, err := CheckBackup(bytes.NewReader(backup.Bytes()))
	if err != nil || info.Index == 0 || info.Bytes != int64(backup.Len()) {
		t.Errorf("got %+v, %v of %d bytes", info, err, backup.Len())
	}
	other := newCluster(t, 1, func(cfg *Config) { cfg.ClusterID = "other" })
	founder := Founder{Dir: filepath.Join(other.dir, "r1"), Cluster: "other", ID: "r1", Address: other.address("r1")}
	if _, err := Restore(bytes.NewReader(backup.Bytes()), founder); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(bytes.NewReader(backup.Bytes()), founder); !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("into a folder in use: got %v", err)
	}
	s := other.start("r1")
	other.propose(setWeight(t, 8))
	if got := weightOf(s); got != 8 {
		t.Errorf("got weight %d, want 8", got)
	}
	if got := s.Stats().Term; got < restoredTerms {
		t.Errorf("term %d could be one that the old cluster came to", got)
	}
	cut := backup.Bytes()[:backup.Len()-1]
	founder.Dir = t.TempDir()
	if _, err := Restore(bytes.NewReader(cut), founder); !errors.Is(err, ErrSnapshotDamaged) {
		t.Errorf("a backup that was cut: got %v", err)
	}
}

// TestLogsWithGaps opens logs that lack entries in the middle: the snapshot makes up
// for those before its end, as after a replica lagged and was sent one.
func TestLogsWithGaps(t *testing.T) {
	for name, test := range map[string]struct {
		// lacking returns the first and last entry that is missing.
		lacking func(snapshot, last uint64) (from, to uint64)
		want    error
	}{
		"before the end of the snapshot": {func(snapshot, _ uint64) (from, to uint64) { return 3, snapshot }, nil},
		"behind the snapshot":            {func(_, last uint64) (from, to uint64) { return last - 2, last - 1 }, ErrDamaged},
		"around its end":                 {func(snapshot, _ uint64) (from, to uint64) { return snapshot, snapshot + 1 }, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 1, nil)
			c.propose(createPool(t, testPool))
			c.propose(setWeight(t, 1))
			s := c.leader()
			if err := s.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			for weight := range 5 {
				c.propose(setWeight(t, weight+1))
			}
			snapshot, last := s.Stats().Snapshot, s.Stats().Last
			c.stop("r1")
			dir := filepath.Join(c.dir, "r1")
			bolt, err := openBolt(filepath.Join(dir, logFile))
			if err != nil {
				t.Fatal(err)
			}
			from, to := test.lacking(snapshot, last)
			if err := errors.Join(bolt.DeleteRange(from, to), bolt.Close()); err != nil {
				t.Fatal(err)
			}
			weight, err := weightIn(t, dir)
			if !errors.Is(err, test.want) || err == nil && weight != 5 {
				t.Errorf("got weight %d, %v; want 5, or %v", weight, err, test.want)
			}
		})
	}
}
