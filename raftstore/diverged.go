package raftstore

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/statepb"
	"weir/raftstore/recordlog"
	"weir/raftstore/state"
)

// What is kept of states that differed, in the replica's folder: a snapshot, and a line with the hash of each
// of its records, so that those of two replicas can be compared with diff.
const (
	divergedPrefix, agreedPrefix = "diverged-", "agreed-"
	snapshotSuffix, hashesSuffix = ".snapshot", ".hashes"
	// keptAside is how many of each are kept, and of folders that were moved aside.
	keptAside = 2
)

// diverged ends this replica, because the log says that the majority has another state than it has at a point. The
// state is kept for inquiry, and the folder is marked, so that it is not used again. A majority that has told what this
// replica has is believed more than the log: one leader could have put something wrong there.
func (s checker) diverged(p *point) {
	select {
	case <-s.started:
	case <-s.closing:
		return
	}
	// A log that is read again is about points at which nobody tells hashes any more. A state that has become wrong
	// since then is found at the next point.
	if p.index <= s.Identity().Backed || s.backed(p) {
		s.goOn(p)
		return
	}
	s.cfg.Logger.Error("state differs from that of the majority; stopping", "index", p.index, "hash", *p.own)
	err := s.Remember(func(id *Identity) { id.Diverged = p.index })
	if s.raft.State() == raft.Leader {
		ctx, cancel := context.WithTimeout(context.Background(), s.patience)
		if err := s.transfer(ctx, ""); err != nil {
			s.cfg.Logger.Warn("leadership not transferred", "error", err)
		}
		cancel()
	}
	path, failed := s.keepAside(divergedPrefix, p)
	if err = errors.Join(err, failed); err != nil {
		s.cfg.Logger.Error("differing state not kept", "error", err)
	}
	s.cfg.Fatal(divergedAt(s.cfg.Dir, p.index, fmt.Sprintf(" (hash %s, theirs %s; see %s)", *p.own, *p.verdict, path)))
}

// backed reports whether a majority of the voters has told the hash that this replica has at a point. A verdict may
// arrive before all that led to it.
func (s checker) backed(p *point) bool {
	grace := time.NewTimer(checkGrace)
	defer grace.Stop()
	look := time.NewTicker(checkGrace / checkLooks)
	defer look.Stop()
	for {
		if found := s.count(p); found.votes >= found.needed {
			return found.most == *p.own
		}
		select {
		case <-look.C:
		case <-grace.C:
			return false
		case <-s.closing:
			return false
		}
	}
}

// goOn has the replica go on: most voters have its state, or it is the only one, whose log had another hash before.
func (s checker) goOn(p *point) {
	c := s.machine.checks
	var path string
	err := s.Remember(func(id *Identity) { id.Backed = max(id.Backed, p.index) })
	if c.read().Dispute == "" {
		// Of several points in a row the first is enough: there may be many in a log that is read again.
		var failed error
		path, failed = s.keepAside(divergedPrefix, p)
		err = errors.Join(err, failed)
	}
	s.cfg.Logger.Error("the log has another hash than this replica's state, which is that of a majority of the voters; going on", "index", p.index, "hash", *p.own, "file", path, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Differences++
	c.stats.Dispute = fmt.Sprintf("at index %d: %s, and %s in the log", p.index, *p.own, *p.verdict)
	close(c.halted)
	c.halted = nil
}

func divergedAt(dir string, index uint64, details string) error {
	return fmt.Errorf("%w: %s: the state at index %d is not that of the other replicas%s: start the replica with --rebuild; it then gets the state from them", ErrDiverged, dir, index, details)
}

// agreed keeps the state at a point at which another replica's differs, so that the two can be compared.
func (s checker) agreed(p *point) {
	path, err := s.keepAside(agreedPrefix, p)
	if err != nil {
		s.cfg.Logger.Error("state not kept for comparison", "index", p.index, "error", err)
		return
	}
	s.cfg.Logger.Warn("another replica's state differs; kept this one for comparison", "index", p.index, "file", path)
}

// keepAside writes the state at a point into the replica's folder, and returns the path of the snapshot.
func (s checker) keepAside(prefix string, p *point) (path string, err error) {
	if err := dropAside(s.cfg.Dir, prefix); err != nil {
		return "", err
	}
	base := filepath.Join(s.cfg.Dir, prefix+strconv.FormatUint(p.index, 10))
	err = writeWhole(base+hashesSuffix, func(w io.Writer) error { return writeHashes(w, p.frozen) })
	if err != nil {
		return "", err
	}
	path = base + snapshotSuffix
	return path, writeWhole(path, func(w io.Writer) error {
		_, err := writeSnapshot(w, p.frozen.Encoded)
		return err
	})
}

// dropAside makes room for another state among those that are kept.
func dropAside(dir, prefix string) error {
	// The file with hashes is written first, and a crash or a full disk may have left it alone.
	found, err := filepath.Glob(filepath.Join(dir, prefix+"*"+hashesSuffix))
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, path := range found[:max(0, len(found)+1-keptAside)] {
		if err := errors.Join(removeFile(strings.TrimSuffix(path, hashesSuffix)+snapshotSuffix), removeFile(path)); err != nil {
			return err
		}
	}
	return nil
}

// writeWhole writes a file; an error or a crash leaves either all of it or none. Of an error it also leaves no rest
// that takes room on a full disk.
func writeWhole(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path+tmpSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	err = cmp.Or(write(out), out.Flush())
	if err == nil {
		err = recordlog.Commit(file, path)
	}
	if err != nil {
		err = errors.Join(err, removeFile(path+tmpSuffix))
	}
	return errors.Join(err, file.Close())
}

// writeHashes writes a line for each record of a state: its kind, what its first field names, its hash.
func writeHashes(w io.Writer, frozen *state.Frozen) error {
	return frozen.Records(func(record *statepb.Record) error {
		hash, err := state.HashOf(record)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s %s\n", nameOf(record), hash)
		}
		return err
	})
}

func nameOf(record *statepb.Record) string {
	m := record.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	of := m.Get(field).Message()
	if first := of.Descriptor().Fields().ByNumber(1); first.Kind() == protoreflect.StringKind && !first.IsList() {
		return fmt.Sprintf("%s %q", field.Name(), of.Get(first).String())
	}
	return string(field.Name())
}

// Rebuild moves the folder of a replica aside if its state is wrong or its data are damaged, so that the
// replica starts without a log and gets everything from the others. Of folders that were moved aside the two newest
// stay. It returns the new path of the folder, and why it was moved. It returns "" if the folder is in order, or was never
// used, and an error if it cannot be used for another reason, such as that it belongs to another replica.
func Rebuild(cfg Config) (aside string, why, err error) {
	why = inspect(cfg)
	if !errors.Is(why, ErrDiverged) && !errors.Is(why, ErrDamaged) && !errors.Is(why, ErrSnapshotDamaged) {
		return "", nil, why
	}
	before, err := movedAside(cfg.Dir)
	if err != nil {
		return "", why, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	next := 1
	if len(before) > 0 {
		next += before[len(before)-1]
	}
	for _, n := range before[:max(0, len(before)+1-keptAside)] {
		if err := os.RemoveAll(asideOf(cfg.Dir, n)); err != nil {
			return "", why, fmt.Errorf("%w: %w", ErrDisk, err)
		}
	}
	aside = asideOf(cfg.Dir, next)
	if err := errors.Join(os.Rename(cfg.Dir, aside), recordlog.SyncDir(filepath.Dir(cfg.Dir))); err != nil {
		return "", why, fmt.Errorf("%w: move %s aside: %w", ErrDisk, cfg.Dir, err)
	}
	return aside, why, nil
}

// asideInfix is between the name of a folder and the number of one that was moved aside.
const asideInfix = ".aside-"

// asideOf is the path of the n-th folder that is moved aside.
func asideOf(dir string, n int) string { return fmt.Sprintf("%s%s%d", dir, asideInfix, n) }

// movedAside returns the numbers of the folders that were moved aside, in order.
func movedAside(dir string) (numbers []int, err error) {
	entries, err := os.ReadDir(filepath.Dir(dir))
	for _, entry := range entries {
		text, is := strings.CutPrefix(entry.Name(), filepath.Base(dir)+asideInfix)
		if n, err := strconv.Atoi(text); is && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// Rebuilt reports whether a folder was moved aside before: the replica has been part of a cluster, and must
// not found another one.
func Rebuilt(dir string) bool {
	found, err := filepath.Glob(dir + asideInfix + "*")
	return err == nil && len(found) > 0
}

// inspect reads all that is in the folder of a replica, which does not run, and returns what is wrong.
func inspect(cfg Config) error {
	entries, err := os.ReadDir(cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	cfg.InitialPeers = nil
	d, err := openDisk(cfg, newRaftLogger(cfg.Logger))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if last := d.snapshots.last.Load(); last != nil {
		_, content, err := d.snapshots.Open(last.ID)
		if err != nil {
			return damaged(cfg.Dir, err)
		}
		_, _, err = readSnapshot(content)
		return errors.Join(err, content.Close())
	}
	return nil
}
