package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/scheduling"
)

// patience is the deadline of every wait.
const patience = 2 * time.Minute

// brokenFile fails when it is written to, synced or given space. It writes the first
// half all the same.
type brokenFile struct {
	file
	write, sync, reserve atomic.Pointer[error]
}

func failing(err error) *error { return &err }

func (f *brokenFile) Write(data []byte) (int, error) {
	if err := f.write.Load(); err != nil {
		n, _ := f.file.Write(data[:len(data)/2])
		return n, *err
	}
	return f.file.Write(data)
}

func (f *brokenFile) Sync() error {
	if err := f.sync.Load(); err != nil {
		return *err
	}
	return f.file.Sync()
}

func (f *brokenFile) Reserve(offset, bytes int64) error {
	if err := f.reserve.Load(); err != nil {
		return *err
	}
	return f.file.Reserve(offset, bytes)
}

func TestTheFirstErrorOfTheDiskIsTheLast(t *testing.T) {
	tests := map[string]struct{ write, sync, reserve error }{
		"a write that fails":              {write: unix.EIO},
		"a sync that fails":               {sync: unix.EIO},
		"a sync that finds the disk full": {sync: unix.ENOSPC},
		"space that cannot be asked for":  {reserve: unix.EIO},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			j, _ := open(t, path)
			must(t, put(t, j, life("a")[:1]...))
			broken := &brokenFile{file: j.file}
			for err, at := range map[error]*atomic.Pointer[error]{test.write: &broken.write, test.sync: &broken.sync, test.reserve: &broken.reserve} {
				if err != nil {
					at.Store(failing(err))
				}
			}
			j.file, j.reserved = broken, 0
			err := put(t, j, life("b")[:1]...)
			if err == nil || !strings.Contains(err.Error(), path) || !errors.Is(err, ErrDisk) && !errors.Is(err, ErrFull) {
				t.Errorf("got %v, want an error that says so and names the file", err)
			}
			for _, at := range []*atomic.Pointer[error]{&broken.write, &broken.sync, &broken.reserve} {
				at.Store(nil)
			}
			if again := put(t, j, life("c")[:1]...); again == nil {
				t.Error("a record was taken after an error of the disk")
			}
			if err := j.Close(); err == nil {
				t.Error("Close forgets the error")
			}
			_, found := open(t, path)
			if found.State.Jobs["a"] == nil || found.State.Jobs["c"] != nil {
				t.Errorf("jobs %v, want a, which was on disk, and not c", found.State.Jobs)
			}
			if test.write != nil && (found.Cut == 0 || found.State.Jobs["b"] != nil) {
				t.Errorf("cut %d, b %v, want what was half written cut off", found.Cut, found.State.Jobs["b"])
			}
		})
	}
}

// awaitFull waits until a journal waits for space.
func awaitFull(t *testing.T, j *Journal) {
	t.Helper()
	for deadline := time.Now().Add(patience); j.Full() == nil; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the journal does not say within %v that the disk is full", patience)
		}
	}
}

func TestRecordsWaitForSpace(t *testing.T) {
	for name, err := range map[string]error{"a full disk": unix.ENOSPC, "a spent quota": unix.EDQUOT} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			j, _ := open(t, path)
			must(t, put(t, j, life("a")[:1]...))
			broken := &brokenFile{file: j.file}
			j.file = broken
			broken.write.Store(failing(err))
			done := make(chan error, 2)
			j.Append(func(err error) { done <- err }, life("b")[:1]...)
			awaitFull(t, j)
			j.Append(func(err error) { done <- err }, life("c")[:1]...)
			if full := j.Full(); !errors.Is(full, ErrFull) || !strings.Contains(full.Error(), path) {
				t.Errorf("full: %v, want the file named", full)
			}
			select {
			case err := <-done:
				t.Fatalf("told %v of a record that waits", err)
			default:
			}
			broken.write.Store(nil)
			must(t, <-done)
			must(t, <-done)
			if full := j.Full(); full != nil {
				t.Errorf("full: %v, after all was written", full)
			}
			must(t, j.Close())
			_, found := open(t, path)
			if s := found.State; s.Jobs["a"] == nil || s.Jobs["b"] == nil || s.Jobs["c"] == nil || found.Cut != 0 {
				t.Errorf("jobs %v, cut %d; want all three, whole", s.Jobs, found.Cut)
			}
		})
	}
}

func TestCloseDoesNotWaitForSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	broken := &brokenFile{file: j.file}
	j.file = broken
	broken.write.Store(failing(unix.ENOSPC))
	done := make(chan error, 1)
	j.Append(func(err error) { done <- err }, life("b")[:1]...)
	awaitFull(t, j)
	if err := j.Close(); !errors.Is(err, ErrFull) || !errors.Is(<-done, ErrFull) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("closed with %v, want it to say that the disk is full, and what to do", err)
	}
	if _, found := open(t, path); found.State.Jobs["b"] != nil || found.Cut != 0 {
		t.Errorf("b is there, cut %d; want nothing of it", found.Cut)
	}
}

// TestFullDisk fills a real disk: there is a reserve for what must be noted, also of an
// agent that is started again; then records wait, and go on when there is space.
func TestFullDisk(t *testing.T) {
	disk := disktest.Small(t, 4<<20)
	path := filepath.Join(disk, "journal")
	j, _ := open(t, path)
	must(t, put(t, j, life("runs")[:3]...))
	ballast := disktest.Fill(t, disk, 0)
	must(t, put(t, j, life("runs")[3:]...))
	must(t, j.Close())
	j, _ = open(t, path)
	must(t, put(t, j, Seen(scheduling.Token{Term: 3})))

	// More than the reserve.
	spec := &actorpb.JobSpec{Shell: strings.Repeat("x", 40<<10)}
	var want []string
	done := make(chan error, 40)
	for i := range cap(done) {
		id := fmt.Sprintf("j%03d", i)
		want = append(want, id)
		about := &actorpb.JobSpec{JobId: id, Shell: spec.GetShell()}
		j.Append(func(err error) { done <- err }, Granted(grant(id, 2, 7), scheduling.Token{Term: 2, Index: 8}), Starting(about, ""), Released(id))
	}
	awaitFull(t, j)
	must(t, os.Remove(ballast))
	for range cap(done) {
		must(t, <-done)
	}
	if j.Full() != nil {
		t.Errorf("full: %v, after all was written", j.Full())
	}
	must(t, j.Close())
	_, found := open(t, path)
	if s := found.State; !slices.Equal(s.Had, append([]string{"runs"}, want...)) || s.Token.Term != 3 {
		t.Errorf("%d jobs were had, token %v; want all, and 3.0", len(s.Had), s.Token)
	}
}

// TestNoSpaceToWriteAnew lets a file grow on that ought to be smaller.
func TestNoSpaceToWriteAnew(t *testing.T) {
	disk := disktest.Small(t, 8<<20)
	path := filepath.Join(disk, "journal")
	j, _ := open(t, path)
	// So much is about jobs that live that a second file has no room.
	spec := strings.Repeat("x", 256<<10)
	var batch []*journalpb.Record
	for i := range 6 {
		id := fmt.Sprint("lives", i)
		batch = append(batch, Granted(grant(id, 2, 7), scheduling.Token{}), Starting(&actorpb.JobSpec{JobId: id, Shell: spec}, ""))
	}
	must(t, put(t, j, batch...))
	ballast := disktest.Fill(t, disk, 64<<10)
	for i := range 3 {
		id := fmt.Sprint("dead", i)
		must(t, put(t, j, Granted(grant(id, 2, 7), scheduling.Token{}), Starting(&actorpb.JobSpec{JobId: id, Shell: spec[:64<<10]}, ""), Released(id)))
	}
	before := j.Stats().Rewrites
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("a file that could not be finished is left: %v", err)
	}
	must(t, os.Remove(ballast))
	for i := range 20 {
		id := fmt.Sprint("more", i)
		must(t, put(t, j, Granted(grant(id, 2, 7), scheduling.Token{}), Starting(&actorpb.JobSpec{JobId: id, Shell: spec[:128<<10]}, ""), Released(id)))
	}
	if after := j.Stats().Rewrites; after <= before {
		t.Errorf("written anew %d times, then %d; want it to be done when there is space", before, after)
	}
	must(t, j.Close())
	if _, found := open(t, path); len(found.State.Jobs) != 6 || len(found.State.Had) != 23 {
		t.Errorf("%d jobs, %d had; want 6 and 23", len(found.State.Jobs), len(found.State.Had))
	}
}

func TestStats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	must(t, put(t, j, life("a")...))
	must(t, put(t, j, life("b")[:1]...))
	info, err := os.Stat(path)
	must(t, err)
	s := j.Stats()
	if s.Records != 7 || s.Bytes == 0 || s.Bytes >= uint64(info.Size()) || s.SyncCount != 2 || s.SyncTotal <= 0 || s.Rewrites != 0 {
		t.Errorf("got %+v, want 7 records in 2 batches, of a file of %d bytes", s, info.Size())
	}
	if within := s.Syncs[syncBounds[len(syncBounds)-1]]; within > s.SyncCount {
		t.Errorf("%d of %d took no longer than the greatest bound", within, s.SyncCount)
	}
}
