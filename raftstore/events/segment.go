package events

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/raftstore/recordlog"
)

// suffix ends the names of segment files; a name begins with the segment's first index.
const suffix = ".events"

// segment is a file of the log. It is changed under the log's lock.
type segment struct {
	path string
	// from is the first index from which this segment and the later ones hold all events.
	from uint64
	// size is the offset of the end of the segment's last record.
	size int64
	// begin is the time of the segment's first event, or zero if there is none.
	begin time.Time
}

func (s *segment) remove() error {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove segment: %w", err)
	}
	return nil
}

// makeSegment creates an empty segment.
func makeSegment(dir string, from uint64, begin time.Time) (*segment, *os.File, error) {
	s := &segment{path: filepath.Join(dir, fmt.Sprintf("%020d%s", from, suffix)), from: from, size: int64(len(signature)), begin: begin}
	file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("make segment: %w", err)
	}
	if _, err := file.WriteAt([]byte(signature), 0); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make segment: %w", err), file.Close(), s.remove())
	}
	// Without a synced directory entry, a crash would lose the file even if it is synced.
	if err := recordlog.SyncDir(dir); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make segment: %w", err), file.Close(), s.remove())
	}
	return s, file, nil
}

// openSegments finds the segments of a folder, in order, and the index of the last record. A crash
// may have left a partial record, so the last segment is truncated after its last valid record.
// Earlier segments were synced before the next one was begun.
func openSegments(dir string, log *slog.Logger) (segments []*segment, last uint64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range names {
		number, ok := strings.CutSuffix(entry.Name(), suffix)
		from, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, 0, err
		}
		segments = append(segments, &segment{path: filepath.Join(dir, entry.Name()), from: from, size: info.Size()})
	}
	slices.SortFunc(segments, func(a, b *segment) int { return strings.Compare(a.path, b.path) })
	for _, s := range segments {
		if s.begin, err = s.beginning(); err != nil {
			return nil, 0, err
		}
	}
	for len(segments) > 0 && last == 0 {
		s := segments[len(segments)-1]
		if last, err = s.mend(log); err != nil {
			return nil, 0, err
		}
		if last == 0 {
			// None of the segment's records has reached the disk.
			if err := s.remove(); err != nil {
				return nil, 0, err
			}
			segments = segments[:len(segments)-1]
		}
	}
	return segments, last, nil
}

// beginning returns the time of the first event.
func (s *segment) beginning() (time.Time, error) {
	file, err := os.Open(s.path)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = file.Close() }()
	f, err := frames.Read(file, int64(len(signature)), s.size)
	if err != nil {
		// A reader that reaches the damaged record gets a GapError.
		return time.Time{}, nil
	}
	entry, err := decode(f)
	if err != nil {
		return time.Time{}, nil
	}
	return timeOf(entry), nil
}

// mend truncates the segment after its last valid record and returns the index of that record, or 0
// if there is none.
func (s *segment) mend(log *slog.Logger) (last uint64, err error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(data, []byte(signature)) {
		return 0, nil
	}
	s.size = int64(len(signature))
	whole := int64(len(data))
	for {
		f, err := frames.Read(bytes.NewReader(data), s.size, whole)
		if err != nil {
			break
		}
		last, s.size = f.Tag, f.End
	}
	if s.size < whole {
		log.Warn("incomplete record cut off the end of the event log", "file", s.path, "bytes", whole-s.size, "index", last)
		return last, os.Truncate(s.path, s.size)
	}
	return last, nil
}
