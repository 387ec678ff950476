package events

import (
	"errors"
	"io/fs"
	"os"
	"sort"
	"time"

	"weir/messages/eventpb"
)

// Reader reads events in order. It holds one file open and one entry in memory. Only one
// goroutine may use it.
type Reader struct {
	log *Log
	// index and position are those of the next event.
	index    uint64
	position uint32

	file *os.File
	// of is the open segment. offset is the position of the next frame in it. Segments are compared
	// by pointer, not by name: after a failed write another segment may get the same name.
	of     *segment
	offset int64
}

// Read returns a reader that begins at this index and position. The caller closes it.
func (l *Log) Read(index uint64, position uint32) *Reader {
	return &Reader{log: l, index: max(index, 1), position: position}
}

// Close closes the reader's file.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file, r.of = nil, nil
	}
}

// Next returns the next events, all of one log entry. If there are none yet, it returns a channel
// `more`, which is closed when there may be some, and an index `through`, up to which there are no
// further events. It returns a *GoneError if the next events are no longer kept. It returns a
// *GapError if this replica lacks the next events; Skip then continues after the gap.
func (r *Reader) Next() (events []*eventpb.Event, through uint64, more <-chan struct{}, err error) {
	for {
		at, err := r.log.locate(r.index)
		if err != nil {
			return nil, 0, nil, err
		}
		if at.wait != nil && (at.segment == nil || r.of == at.segment && r.offset >= at.size) {
			return nil, at.covered, at.wait, nil
		}
		entry, err := r.read(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// The segment was removed after it was located.
			continue
		case err != nil:
			return nil, 0, nil, err
		case entry == nil:
			continue
		}
		if missing := entry.GetMissingFrom(); missing != 0 {
			return nil, 0, nil, &GapError{From: max(missing, r.index), To: entry.GetIndex()}
		}
		events = entry.GetEvents()
		if entry.GetIndex() == r.index {
			events = events[min(int(r.position), len(events)):]
		}
		r.index, r.position = entry.GetIndex()+1, 0
		if len(events) > 0 {
			return events, entry.GetIndex(), nil, nil
		}
	}
}

// Skip continues after a gap.
func (r *Reader) Skip(gap *GapError) { r.index, r.position = max(r.index, gap.To+1), 0 }

// place is the location of an index in the segments.
type place struct {
	// segment is nil if there is none yet.
	segment *segment
	// size is the end of the segment's records. next is the first index of the next segment, or 0
	// if there is none.
	size    int64
	next    uint64
	covered uint64
	// wait is closed when there may be more to read. It is nil if the segment no longer grows.
	wait <-chan struct{}
}

// locate finds the segment that holds an index, or to which that index will be appended.
func (l *Log) locate(index uint64) (place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index < l.oldest() {
		return place{}, &GoneError{From: index, Oldest: l.oldest()}
	}
	if l.closing {
		return place{}, ErrClosed
	}
	// This is the last segment that does not begin after the index.
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].from > index }) - 1
	if i < 0 {
		return place{covered: l.covered, wait: l.wake}, nil
	}
	s := l.segments[i]
	at := place{segment: s, size: s.size, covered: l.covered}
	if i+1 < len(l.segments) {
		at.next = l.segments[i+1].from
	} else {
		at.wait = l.wake
	}
	return at, nil
}

// read returns the next entry of a segment at or after the reader's index. It returns nil at the
// end of the segment, which may still grow.
func (r *Reader) read(at place) (*eventpb.Entry, error) {
	if r.of != at.segment {
		r.Close()
		file, err := os.Open(at.segment.path)
		if err != nil {
			return nil, err
		}
		r.file, r.of, r.offset = file, at.segment, int64(len(signature))
	}
	for r.offset < at.size {
		f, err := frames.Read(r.file, r.offset, at.size)
		if err != nil {
			to := at.covered
			if at.next != 0 {
				to = at.next - 1
			}
			r.offset = at.size
			return nil, &GapError{From: r.index, To: max(to, r.index), Damaged: true}
		}
		if r.offset = f.End; f.Tag >= r.index {
			return decode(f)
		}
	}
	if at.next != 0 {
		r.index, r.position = max(r.index, at.next), 0
	}
	return nil, nil
}

// Since returns the index of the first kept event at or after a time, or the index after the last
// event if there is none.
func (l *Log) Since(at time.Time) (uint64, error) {
	l.mu.Lock()
	from, behind := l.oldest(), l.covered+1
	for _, s := range l.segments {
		if !s.begin.IsZero() && s.begin.Before(at) {
			from = s.from
		}
	}
	l.mu.Unlock()
	r := l.Read(from, 0)
	defer r.Close()
	for {
		events, _, more, err := r.Next()
		var gap *GapError
		switch {
		case errors.As(err, &gap):
			r.Skip(gap)
		case err != nil:
			return 0, err
		case more != nil:
			return max(behind, r.index), nil
		case !events[len(events)-1].GetTime().AsTime().Before(at):
			return events[0].GetIndex(), nil
		}
	}
}
