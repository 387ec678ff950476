package events

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/messages/eventpb"
)

func TestTornEndIsCutOff(t *testing.T) {
	cfg := configOf(t.TempDir())
	l := mustOpen(t, cfg)
	for i := uint64(1); i <= 3; i++ {
		l.Append(i, entryOf(i, 2))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := l.segments[0].path
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := len(whole); size >= 0; size-- {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, cfg)
		for i := uint64(1); i <= 3; i++ {
			l.Append(i, entryOf(i, 2))
		}
		synced(t, l)
		if got := fmt.Sprint(readAll(t, l, 0, 0)); got != "[1.0 1.1 2.0 2.1 3.0 3.1]" {
			t.Errorf("cut at %d: got %s", size, got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskFails takes the folder away for a while: what happened then is missing, and
// told.
func TestDiskFails(t *testing.T) {
	cfg := configOf(filepath.Join(t.TempDir(), "log"))
	cfg.SegmentBytes = 1
	l := mustOpen(t, cfg)
	defer l.Close()
	l.Append(1, entryOf(1, 1))
	synced(t, l)
	away := cfg.Dir + ".away"
	if err := os.Rename(cfg.Dir, away); err != nil {
		t.Fatal(err)
	}
	l.Append(2, entryOf(2, 1))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Sync(ctx); err == nil {
		t.Fatal("synced without a folder")
	}
	if err := os.Rename(away, cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if err := l.WaitCovered(ctx, 2); err != nil {
		t.Fatal(err)
	}
	l.Append(3, entryOf(3, 1))
	synced(t, l)
	if got := fmt.Sprint(readAll(t, l, 0, 0)); got != "[1.0 gap 2 to 2 3.0]" {
		t.Errorf("got %s", got)
	}
}

// TestQuietWhileASyncFails has a log entry without events come while a sync fails: nobody
// waits for it until the next one.
func TestQuietWhileASyncFails(t *testing.T) {
	l := newLog(configOf(t.TempDir()))
	l.syncs = append(l.syncs, make(chan error, 1))
	entries, through, _, _ := l.take()
	l.Append(1, nil)
	l.settle(entries, through, errors.New("the disk is full"))
	if got := l.Covered(); got != 1 {
		t.Errorf("covered up to %d, want 1", got)
	}
}

// TestSegmentMadeAgain has a reader wait at the end of a segment to which the first write
// fails, so that another one gets its name.
func TestSegmentMadeAgain(t *testing.T) {
	l := newLog(configOf(t.TempDir()))
	defer l.endOutput()
	entry := entryRecord(1)
	if err := l.open(entry); err != nil {
		t.Fatal(err)
	}
	r := l.Read(1, 0)
	defer r.Close()
	if _, _, more, err := r.Next(); err != nil || more == nil {
		t.Fatalf("got %v, want to wait", err)
	}
	failed := errors.New("the disk is full")
	if err := l.abandon(failed); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if err := l.put([]*eventpb.Entry{entry}, 1, false); err != nil {
		t.Fatal(err)
	}
	if events, _, _, err := r.Next(); err != nil || len(events) != 2 {
		t.Errorf("got %d events, %v, want 2", len(events), err)
	}
}

// TestFirstWriteToTheOnlySegmentFails when all before it has just expired: that is kept no
// longer all the same.
func TestFirstWriteToTheOnlySegmentFails(t *testing.T) {
	cfg := configOf(t.TempDir())
	cfg.MaxBytes, cfg.SegmentBytes = 1, 1
	l := newLog(cfg)
	defer l.endOutput()
	if err := l.put([]*eventpb.Entry{entryRecord(1)}, 1, false); err != nil {
		t.Fatal(err)
	}
	if err := l.open(entryRecord(2)); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the disk is full")
	if err := l.abandon(failed); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if got := l.Oldest(); got != 2 {
		t.Errorf("the oldest kept are of index %d, want 2", got)
	}
	if err := l.put([]*eventpb.Entry{entryRecord(2)}, 2, false); err != nil || l.Oldest() != 2 {
		t.Errorf("the oldest kept are of index %d after the next write, %v; want 2", l.Oldest(), err)
	}
}

func TestDamageIsTold(t *testing.T) {
	cfg := configOf(t.TempDir())
	cfg.SegmentBytes = 1
	l := mustOpen(t, cfg)
	for i := uint64(1); i <= 3; i++ {
		l.Append(i, entryOf(i, 1))
		synced(t, l)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := l.segments[1].path
	data, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1]++
	if err := os.WriteFile(damaged, data, 0o600); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, cfg)
	defer l.Close()
	if got := fmt.Sprint(readAll(t, l, 0, 0)); got != "[1.0 gap 2 to 2 3.0]" {
		t.Errorf("got %s", got)
	}
}

func TestAnotherHistoryIsDropped(t *testing.T) {
	cfg := configOf(t.TempDir())
	l := mustOpen(t, cfg)
	l.Append(1, entryOf(1, 1))
	l.Append(9, entryOf(9, 1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, cfg)
	defer l.Close()
	if err := l.Begin(5); err != nil {
		t.Fatal(err)
	}
	l.Append(1, entryOf(1, 2))
	synced(t, l)
	if got := fmt.Sprint(readAll(t, l, 0, 0)); got != "[1.0 1.1]" {
		t.Errorf("got %s", got)
	}
}

func TestQueueIsBounded(t *testing.T) {
	cfg := configOf(t.TempDir())
	cfg.QueueEvents = 4
	l := newLog(cfg)
	for i := uint64(1); i <= 10; i++ {
		l.Append(i, entryOf(i, 2))
	}
	if l.queued > cfg.QueueEvents || l.missingFrom != 3 {
		t.Fatalf("%d events wait, missing from %d", l.queued, l.missingFrom)
	}
	go func() {
		defer close(l.ended)
		l.write()
	}()
	defer l.Close()
	synced(t, l)
	l.Append(11, entryOf(11, 1))
	synced(t, l)
	if got := fmt.Sprint(readAll(t, l, 0, 0)); got != "[1.0 1.1 2.0 2.1 gap 3 to 10 11.0]" {
		t.Errorf("got %s", got)
	}
}
