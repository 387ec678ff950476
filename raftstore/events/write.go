package events

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"weir/messages/eventpb"
)

// output is the segment that is being written, and its file.
type output struct {
	*segment
	file *os.File
	// begun is the time of the first event.
	begun time.Time
}

// write appends queued entries to the files until the log is closed.
func (l *Log) write() {
	failing := false
	for {
		entries, through, syncs, closing := l.take()
		err := l.put(entries, through, len(syncs) > 0 || closing)
		l.settle(entries, through, err)
		for _, done := range syncs {
			done <- err
		}
		if err != nil && !failing {
			l.cfg.Logger.Error("cannot write events; readers will get a gap", "dir", l.cfg.Dir, "index", through, "error", err)
		} else if err == nil && failing {
			l.cfg.Logger.Info("writing events again", "dir", l.cfg.Dir, "index", through)
		}
		failing = err != nil
		if closing {
			l.endOutput()
			return
		}
		if failing {
			pause := time.NewTimer(l.cfg.Retry)
			select {
			case <-pause.C:
			case <-l.stop:
			}
			pause.Stop()
		}
	}
}

// take waits for work. through is the index up to which the entries reach. If events were left out,
// the last entry marks the gap.
func (l *Log) take() (entries []*eventpb.Entry, through uint64, syncs []chan error, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && l.missingFrom == 0 && len(l.syncs) == 0 && !l.closing {
		l.more.Wait()
	}
	entries, syncs = l.queue, l.syncs
	if l.missingFrom != 0 {
		entries = append(entries, &eventpb.Entry{Index: l.seen, MissingFrom: l.missingFrom})
		l.missingFrom = 0
	}
	// l.queued is reduced only after the entries are written, because it also counts events that
	// are being written.
	l.queue, l.syncs, l.writing = nil, nil, true
	return entries, l.seen, syncs, l.closing
}

// settle updates the log after a write of entries.
func (l *Log) settle(entries []*eventpb.Entry, through uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		l.queued -= len(e.GetEvents())
	}
	l.writing = false
	if err == nil {
		l.cover(through)
	}
	if err == nil || len(entries) == 0 {
		// No entry is waiting for the disk.
		l.coverIdle()
		return
	}
	// These entries are now missing, and so are all entries queued since.
	first := entries[0]
	l.missingFrom = cmp.Or(first.GetMissingFrom(), first.GetIndex())
	for _, e := range l.queue {
		l.queued -= len(e.GetEvents())
	}
	l.queue = nil
}

// put writes entries to the segment, and begins another one each time it is full.
func (l *Log) put(entries []*eventpb.Entry, through uint64, sync bool) error {
	if sync && len(entries) == 0 && l.written != 0 && l.written < through {
		// An empty entry marks that nothing happened up to here.
		entries = []*eventpb.Entry{{Index: through}}
	}
	for len(entries) > 0 {
		if err := l.open(entries[0]); err != nil {
			return err
		}
		n, err := l.fill(entries)
		if err != nil {
			return err
		}
		entries = entries[n:]
	}
	if sync && l.out != nil {
		if err := l.out.file.Sync(); err != nil {
			return l.abandon(fmt.Errorf("sync %s: %w", l.out.path, err))
		}
	}
	return nil
}

// fill appends as many entries as the segment has room for, but at least one, in one write, and
// returns their number.
func (l *Log) fill(entries []*eventpb.Entry) (n int, err error) {
	out := l.out
	var data []byte
	for n < len(entries) && (n == 0 || out.size+int64(len(data)) < l.cfg.SegmentBytes) {
		if data, err = appendFrame(data, out.size, entries[n]); err != nil {
			return 0, err
		}
		n++
	}
	if _, err := out.file.WriteAt(data, out.size); err != nil {
		// A partial write is not counted in size, and abandon truncates the file.
		return 0, l.abandon(fmt.Errorf("write %s: %w", out.path, err))
	}
	l.written = entries[n-1].GetIndex()
	if out.begun.IsZero() {
		out.begun = timeOf(entries[0])
	}
	l.mu.Lock()
	out.size += int64(len(data))
	l.mu.Unlock()
	return n, nil
}

// abandon closes the segment after an error. Data beyond its size cannot be trusted, so the next
// write begins another segment.
func (l *Log) abandon(err error) error {
	out := l.out
	l.out = nil
	err = errors.Join(err, out.file.Truncate(out.size), out.file.Close())
	if out.size > int64(len(signature)) {
		return err
	}
	l.mu.Lock()
	if l.segments = l.segments[:len(l.segments)-1]; len(l.segments) == 0 {
		// The earlier segments have expired.
		l.first = out.from
	}
	l.mu.Unlock()
	return errors.Join(err, out.remove())
}

// endOutput closes the segment that is being written.
func (l *Log) endOutput() {
	if l.out == nil {
		return
	}
	if err := l.out.file.Close(); err != nil {
		l.cfg.Logger.Warn("cannot close event log segment", "file", l.out.path, "error", err)
	}
	l.out = nil
}

// goOn opens the last segment for appending, if the segment has room.
func (l *Log) goOn() error {
	if len(l.segments) == 0 || l.segments[len(l.segments)-1].size >= l.cfg.SegmentBytes {
		return nil
	}
	last := l.segments[len(l.segments)-1]
	file, err := os.OpenFile(last.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	l.out = &output{segment: last, file: file, begun: last.begin}
	return nil
}

// open ensures that the writer has an open segment with room for an entry.
func (l *Log) open(next *eventpb.Entry) error {
	if l.out != nil && l.out.size < l.cfg.SegmentBytes && !l.aged(next) {
		return nil
	}
	if l.out != nil {
		if err := l.out.file.Sync(); err != nil {
			return l.abandon(fmt.Errorf("sync %s: %w", l.out.path, err))
		}
		l.endOutput()
	}
	// There were no events between the latest record and this entry.
	from := l.written + 1
	l.mu.Lock()
	if len(l.segments) == 0 {
		from = l.first
	}
	l.mu.Unlock()
	made, file, err := makeSegment(l.cfg.Dir, from, timeOf(next))
	if err != nil {
		return err
	}
	l.out = &output{segment: made, file: file}
	l.mu.Lock()
	l.segments = append(l.segments, made)
	gone := l.expire(timeOf(next))
	l.mu.Unlock()
	return drop(gone)
}

// aged reports whether the segment would span more than a sixteenth of MaxAge. In such a segment,
// the oldest events would be kept much longer than MaxAge.
func (l *Log) aged(next *eventpb.Entry) bool {
	now := timeOf(next)
	return !l.out.begun.IsZero() && !now.IsZero() && now.Sub(l.out.begun) > l.cfg.MaxAge/16
}

// expire removes from the list the segments that are too old or exceed the size, but never the last
// one. l.mu is held.
func (l *Log) expire(now time.Time) (gone []*segment) {
	total := int64(0)
	for _, s := range l.segments {
		total += s.size
	}
	for len(l.segments) > 1 {
		oldest, next := l.segments[0], l.segments[1]
		old := !now.IsZero() && !next.begin.IsZero() && now.Sub(next.begin) > l.cfg.MaxAge
		if total <= l.cfg.MaxBytes-l.cfg.SegmentBytes && !old {
			break
		}
		gone = append(gone, oldest)
		total -= oldest.size
		l.segments = l.segments[1:]
	}
	return gone
}

func drop(gone []*segment) error {
	for _, s := range gone {
		if err := s.remove(); err != nil {
			return err
		}
	}
	return nil
}

// timeOf returns the time of an entry's first event; zero if it has none.
func timeOf(e *eventpb.Entry) time.Time {
	if len(e.GetEvents()) == 0 {
		return time.Time{}
	}
	return e.GetEvents()[0].GetTime().AsTime()
}
