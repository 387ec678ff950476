package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/messages/eventpb"
)

// Config says where a log is and how much it keeps.
type Config struct {
	// Dir is the log's own folder; it is created if it does not exist.
	Dir string
	// MaxBytes bounds the total size of the files. Beyond that size, the oldest segments are
	// removed. Default 256 MiB, about a million events.
	MaxBytes int64
	// MaxAge bounds the age of events, relative to the latest event: without new events
	// nothing is removed. Default 7 days.
	MaxAge time.Duration
	// SegmentBytes is the size of a segment, the unit of removal. Default 8 MiB, or a
	// sixteenth of MaxBytes if that is less.
	SegmentBytes int64
	// QueueEvents is how many events may wait for the disk. Further events are dropped, which
	// leaves a gap. Default 65536.
	QueueEvents int
	// Retry is the pause after a failed write. Default 1 s.
	Retry time.Duration
	// Logger receives warnings about missing events and their cause.
	Logger *slog.Logger
}

// Default returns a Config with every default; the caller sets Dir.
func Default() Config {
	return Config{
		MaxBytes: 256 << 20, MaxAge: 7 * 24 * time.Hour, SegmentBytes: 8 << 20, QueueEvents: 65536, Retry: time.Second, Logger: slog.Default(),
	}
}

// Validate returns an error that names the first invalid setting.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("dir is empty: name the folder of the event log")
	case c.MaxBytes < 64<<10:
		return fmt.Errorf("max bytes %d: must be at least 64 KiB", c.MaxBytes)
	case c.MaxAge < time.Minute:
		return fmt.Errorf("max age %v: must be at least 1m", c.MaxAge)
	case c.SegmentBytes < 1:
		return fmt.Errorf("segment of %d bytes: must be more than 0", c.SegmentBytes)
	case c.QueueEvents < 1:
		return fmt.Errorf("queue of %d events: must be at least 1", c.QueueEvents)
	case c.Retry <= 0:
		return fmt.Errorf("retry %v: must be more than 0", c.Retry)
	case c.Logger == nil:
		return errors.New("logger is not set")
	}
	return nil
}

// ErrClosed is returned when the log has been closed.
var ErrClosed = errors.New("event log is closed")

// GoneError is returned when the requested events are no longer kept.
type GoneError struct {
	// From is the requested index. Oldest is the first index at or after which every event is kept.
	From, Oldest uint64
}

// Error implements error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("events from index %d are no longer kept: the oldest kept index is %d", e.From, e.Oldest)
}

// GapError is returned when this replica lacks the events of some log entries.
type GapError struct {
	// From and To are the first and the last missing index.
	From, To uint64
	// Damaged is set if the events were written but cannot be read.
	Damaged bool
}

// Error implements error.
func (e *GapError) Error() string {
	if e.Damaged {
		return fmt.Sprintf("events of index %d to %d are lost: damaged event log file", e.From, e.To)
	}
	return fmt.Sprintf("events of index %d to %d are missing: this replica restored a later state, or could not write them", e.From, e.To)
}

// Log is an open event log. Its methods are safe for concurrent use, except that only one
// goroutine may call Append and Jump.
type Log struct {
	cfg Config

	mu sync.Mutex
	// more wakes the writer. wake is closed, and replaced, when readers may continue.
	more *sync.Cond
	wake chan struct{}
	// queue holds the entries that wait for the disk. queued counts the events of these entries and
	// of the entries that are being written.
	queue  []*eventpb.Entry
	queued int
	// writing is set while the writer holds entries whose outcome is not settled.
	writing bool
	// seen is the last log entry passed to the log. covered is the index up to which the files are
	// final: every event is written, or is marked as missing.
	seen, covered uint64
	// first is the oldest index while there are no segments.
	first uint64
	// missingFrom, if not 0, is the index of the first entry that is being left out.
	missingFrom uint64
	// syncs holds a channel for each waiting call of Sync.
	syncs    []chan error
	segments []*segment
	closing  bool

	// stop is closed by Close. ended is closed when the writer has ended.
	stop, ended chan struct{}
	// The fields below belong to the writer. out is the segment that the writer appends to, or nil.
	// written is the index of the latest record.
	out     *output
	written uint64
}

// Open opens a log, or creates it. It cuts off the remains of a write that a crash interrupted.
func Open(cfg Config) (*Log, error) {
	if cfg.SegmentBytes > cfg.MaxBytes/16 {
		cfg.SegmentBytes = max(cfg.MaxBytes/16, 1)
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l := newLog(cfg)
	segments, last, err := openSegments(cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("open event log %s: %w", cfg.Dir, err)
	}
	l.segments, l.seen, l.covered, l.written = segments, last, last, last
	if err := l.goOn(); err != nil {
		return nil, fmt.Errorf("open event log %s: %w", cfg.Dir, err)
	}
	go func() {
		defer close(l.ended)
		l.write()
	}()
	return l, nil
}

func newLog(cfg Config) *Log {
	l := &Log{cfg: cfg, first: 1, wake: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{})}
	l.more = sync.NewCond(&l.mu)
	return l
}

// Begin is called with the last index of the replica's command log, before anything is appended or
// read. An event log that goes beyond that index belongs to another history and is dropped.
func (l *Log) Begin(last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.covered <= last {
		return nil
	}
	l.cfg.Logger.Warn("event log does not match the replica's log; starting a new one", "dir", l.cfg.Dir, "index", l.covered, "last", last)
	l.endOutput()
	if err := drop(l.segments); err != nil {
		return fmt.Errorf("begin event log: %w", err)
	}
	l.segments, l.seen, l.covered, l.written = nil, 0, 0, 0
	return nil
}

// Append adds the events of the next log entry, which may have none. It does not wait for the disk.
// It skips an entry that the log already has, for instance after a restart.
func (l *Log) Append(index uint64, events []*eventpb.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index <= l.seen {
		return
	}
	l.seen = index
	switch {
	case len(events) == 0:
	case l.missingFrom != 0, l.queued > 0 && l.queued+len(events) > l.cfg.QueueEvents:
		l.miss(index)
	default:
		l.queue = append(l.queue, &eventpb.Entry{Index: index, Events: events})
		l.queued += len(events)
		l.more.Signal()
	}
	l.coverIdle()
}

// coverIdle advances covered to seen if nothing waits for the disk. l.mu is held.
func (l *Log) coverIdle() {
	if len(l.queue) == 0 && !l.writing && l.missingFrom == 0 {
		l.cover(l.seen)
	}
}

// miss drops the entry at an index, and all later entries until the writer has caught up. l.mu is
// held.
func (l *Log) miss(index uint64) {
	if l.missingFrom == 0 {
		l.missingFrom = index
		l.more.Signal()
	}
}

// Jump records that the replica's state was replaced by the state at an index, and that the events
// since the last appended entry are unknown.
func (l *Log) Jump(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index <= l.seen {
		return
	}
	if l.seen == 0 && len(l.segments) == 0 {
		// The log is empty, so there is no gap to record.
		l.seen, l.first = index, index+1
		l.cover(index)
		return
	}
	if l.missingFrom == 0 {
		l.queue = append(l.queue, &eventpb.Entry{Index: index, MissingFrom: l.seen + 1})
	}
	l.seen = index
	l.more.Signal()
}

// cover records that the files are complete up to an index. l.mu is held.
func (l *Log) cover(index uint64) {
	l.covered = max(l.covered, index)
	l.broadcast()
}

func (l *Log) broadcast() {
	close(l.wake)
	l.wake = make(chan struct{})
}

// Covered returns the index up to which the files are final: every event is written, or is marked
// as missing.
func (l *Log) Covered() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.covered
}

// WaitCovered returns when Covered has reached an index.
func (l *Log) WaitCovered(ctx context.Context, index uint64) error {
	for {
		l.mu.Lock()
		covered, closing, changed := l.covered, l.closing, l.wake
		l.mu.Unlock()
		switch {
		case covered >= index:
			return nil
		case closing:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for events of index %d, written up to %d: %w", index, covered, context.Cause(ctx))
		}
	}
}

// Oldest returns the first index from which every event is kept. Readers report gaps after it.
func (l *Log) Oldest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.oldest()
}

func (l *Log) oldest() uint64 {
	if len(l.segments) == 0 {
		return l.first
	}
	return l.segments[0].from
}

// Sync returns when all appended events are on disk. It returns an error if they cannot be written
// now.
func (l *Log) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	l.syncs = append(l.syncs, done)
	l.more.Signal()
	l.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("sync event log: %w", context.Cause(ctx))
	}
}

// Close writes the queue and closes the files. It may be called more than once.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closing {
		l.closing = true
		close(l.stop)
		l.more.Signal()
		l.broadcast()
	}
	l.mu.Unlock()
	<-l.ended
	return nil
}
