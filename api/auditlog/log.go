// Package auditlog keeps the audit log of a replica in files of JSON lines. What becomes a line, and
// whose lines give way, is decided by package audit.
package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"weir/scheduling/audit"
)

// Config says where a log is and how much it keeps.
type Config struct {
	// Dir is the log's own folder; it is created if it does not exist.
	Dir string
	// Replica is the id of the replica; every line has it.
	Replica string
	// MaxBytes bounds the total size of the files. Default 64 MiB, about 200,000 lines.
	MaxBytes int64
	// Flush is how long lines wait in memory to be written together. Default 100 ms.
	Flush time.Duration
	// Retry is the pause after a failed write. Default 1 s.
	Retry time.Duration
	// Linger bounds how long Close waits for the disk. Default 2 s.
	Linger time.Duration
	// Limits bound the lines in memory.
	Limits audit.Limits
	// Logger receives warnings about lines that cannot be written.
	Logger *slog.Logger
}

// Default returns a Config with every default; the caller sets Dir and Replica.
func Default() Config {
	return Config{
		MaxBytes: 64 << 20, Flush: 100 * time.Millisecond, Retry: time.Second, Linger: 2 * time.Second, Limits: audit.DefaultLimits(), Logger: slog.Default(),
	}
}

// segments is how many files a full log has at least. Lines are removed from one file at a time.
const segments = 16

// Validate returns an error that names the first invalid setting.
func (c Config) Validate() error {
	for _, setting := range []struct {
		name string
		ok   bool
	}{
		{"dir", c.Dir != ""}, {"replica", c.Replica != ""}, {"max bytes (at least 64 KiB)", c.MaxBytes >= 64<<10}, {"flush", c.Flush > 0}, {"retry", c.Retry > 0},
		{"linger", c.Linger > 0}, {"distinct lines", c.Limits.Distinct > 0}, {"lines that wait", c.Limits.Pending > 0}, {"logger", c.Logger != nil},
	} {
		if !setting.ok {
			return fmt.Errorf("audit log: %s is missing or too small", setting.name)
		}
	}
	return nil
}

// Log is an open audit log. Its methods are safe for concurrent use.
type Log struct {
	cfg Config
	// loaded is closed when the files have been read.
	loaded chan struct{}
	files  *files
	ctx    context.Context
	stop   context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex
	fold *audit.Fold
	// told is the number of lost decisions that the last warning told.
	told int64
	// failing is set while writes fail.
	failing bool
	written int64
}

// Open opens a log. If the disk fails, it is tried again, also for the first time; calls wait for that
// no more than for anything else.
func Open(cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, fold: audit.NewFold(cfg.Limits), loaded: make(chan struct{}), ended: make(chan struct{}),
		files: &files{dir: cfg.Dir, maxBytes: cfg.MaxBytes, segmentBytes: cfg.MaxBytes / segments, replica: cfg.Replica, wake: make(chan struct{})},
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	go func() {
		defer close(l.ended)
		l.write()
	}()
	return l, nil
}

// Record adds a decision, whose Time is now. It never waits for the disk.
func (l *Log) Record(line audit.Line) {
	line = line.Cut()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fold.Add(line)
}

// Read sends the lines with a greater seq than `after`, where a time to come counts as now, and the seq after which it goes on; with wait
// also those that will be written, until ctx is done or the log is closed.
func (l *Log) Read(ctx context.Context, after uint64, wait bool, send func(lines []string, after uint64) error) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(errClosed) })()
	return l.files.follow(ctx, min(after, l.files.latest(time.Now())), wait, send)
}

// Latest sends the last n of the lines with a seq greater than `after` and less than `before`, in order; a `before` of 0 is no
// bound.
func (l *Log) Latest(ctx context.Context, after, before uint64, n int, send func(lines []string, after uint64) error) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	if before == 0 {
		before = math.MaxUint64
	}
	return l.files.latestLines(ctx, after, before, n, send)
}

// ready waits until the files have been read.
func (l *Log) ready(ctx context.Context) error {
	select {
	case <-l.loaded:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ctx.Done():
		return errClosed
	}
}

var errClosed = errors.New("audit log is closed")

// Stats count the lines that this process wrote, the decisions that it dropped, and the lines that
// wait.
type Stats struct {
	Written, Lost int64
	Waiting       int
}

// Stats returns the present figures.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Written: l.written, Lost: l.fold.Lost(), Waiting: l.fold.Pending()}
}

// Close writes the lines that wait, unless the disk takes longer than Config.Linger. It may be called
// more than once.
func (l *Log) Close() error {
	l.stop()
	timer := time.NewTimer(l.cfg.Linger)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
		l.cfg.Logger.Warn("audit log not written to its end: the disk does not respond", "dir", l.cfg.Dir, "waiting", l.Stats().Waiting)
	}
	return nil
}

// write writes lines until the log is closed.
func (l *Log) write() {
	for err := l.files.load(); err != nil; err = l.files.load() {
		l.failed(err)
		if l.pause(l.cfg.Retry) {
			return
		}
	}
	close(l.loaded)
	var batch []audit.Line
	for {
		closing := l.pause(l.cfg.Flush)
		if len(batch) == 0 {
			batch = l.take(closing)
		}
		for len(batch) > 0 {
			n, err := l.files.append(batch, time.Now())
			batch = batch[n:]
			l.wrote(n, err)
			if err != nil && l.pause(l.cfg.Retry) {
				return
			}
		}
		if closing {
			l.files.close()
			return
		}
	}
}

// pause waits, and reports whether the log is being closed.
func (l *Log) pause(d time.Duration) (closing bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
	}
	return l.ctx.Err() != nil
}

func (l *Log) take(all bool) []audit.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell()
	return l.fold.Take(time.Now(), all)
}

// tell logs how many decisions were dropped since the last warning. l.mu is held.
func (l *Log) tell() {
	if lost := l.fold.Lost(); lost > l.told {
		l.cfg.Logger.Warn("audit lines dropped: too many waited for the disk", "dir", l.cfg.Dir, "cut", lost-l.told, "dropped_so_far", lost)
		l.told = lost
	}
}

func (l *Log) wrote(n int, err error) {
	if err != nil {
		l.failed(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written += int64(n)
	if err == nil && l.failing {
		l.failing = false
		l.cfg.Logger.Info("audit log is written again", "dir", l.cfg.Dir)
	}
	l.tell()
}

// failed warns once until a write succeeds.
func (l *Log) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failing {
		l.failing = true
		l.cfg.Logger.Warn("audit log cannot be written; retrying", "dir", l.cfg.Dir, "waiting", l.fold.Pending(), "error", err)
	}
	l.tell()
}
