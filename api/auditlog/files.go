package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/scheduling/audit"
)

// The names of files: seq of the first line, then ending. A file with the ending `unfinished` is left
// from a crash.
const (
	ending     = ".jsonl"
	unfinished = ".new"
)

// segment is one file of the log.
type segment struct {
	path string
	// last is the seq of the last line.
	last uint64
	size int64
	held audit.Segment
}

// files are the files of the log. Only the writer changes them; mu guards what readers look at.
type files struct {
	dir                    string
	maxBytes, segmentBytes int64
	replica                string

	mu       sync.Mutex
	segments []*segment
	// wake is closed, and replaced, when there are new lines.
	wake chan struct{}

	// out is the file of the last segment; nil: the next line begins a new one.
	out  *os.File
	last uint64
}

// load reads which lines the files have. It removes what a crash left.
func (f *files) load() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var segments []*segment
	last := uint64(0)
	for _, entry := range entries {
		path := filepath.Join(f.dir, entry.Name())
		first, bad := strconv.ParseUint(strings.TrimSuffix(entry.Name(), ending), 10, 64)
		switch {
		case strings.HasSuffix(path, unfinished), bad == nil && first <= last:
			// The lines of the second kind were moved to the file before.
			err = errors.Join(err, os.Remove(path))
		case bad == nil:
			s, _, _, failed := scan(path, "")
			if failed == nil {
				// What comes after the last complete line is the rest of a write.
				failed = os.Truncate(path, s.size)
				segments, last = append(segments, s), max(last, s.last)
			}
			err = errors.Join(err, failed)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.segments, f.last = segments, last
	return err
}

// scan reads the complete lines of a file without those of an account. It returns what they add up to,
// the lines, and one that says how many decisions of the account there are; without an account only
// the first.
func scan(path, without string) (s *segment, kept []byte, gone audit.Line, err error) {
	s = &segment{path: path, held: make(audit.Segment)}
	file, err := os.Open(path)
	if err != nil {
		return s, nil, gone, err
	}
	defer file.Close()
	n := int64(0)
	_, err = read(file, 0, func(_ uint64, raw []byte) error {
		var line audit.Line
		if bad := json.Unmarshal(raw, &line); bad != nil && without != "" {
			return nil
		}
		if without != "" && line.Account() == without {
			gone = line
			n += max(line.Count, 1)
			return nil
		}
		s.add(line, len(raw))
		if without != "" {
			kept = append(kept, raw...)
		}
		return nil
	})
	return s, kept, audit.LostLine(gone, n, "the audit log is full (--audit-log-size), and this subject had most of it"), err
}

func (s *segment) add(line audit.Line, bytes int) {
	s.last = max(s.last, line.Seq)
	s.size += int64(bytes)
	s.held[line.Account()] += int64(bytes)
}

// append writes lines, with their seq. It returns how many of them it has written.
func (f *files) append(lines []audit.Line, now time.Time) (written int, err error) {
	for written < len(lines) {
		if f.out == nil {
			if err := f.begin(now); err != nil {
				return written, err
			}
		}
		var data bytes.Buffer
		encoder := json.NewEncoder(&data)
		encoder.SetEscapeHTML(false)
		added := &segment{held: make(audit.Segment)}
		room := f.segmentBytes - f.segments[len(f.segments)-1].size
		n := 0
		for _, line := range lines[written:] {
			if int64(data.Len()) >= room {
				break
			}
			line.Replica, line.Seq = f.replica, f.next(now)
			from := data.Len()
			if err := encoder.Encode(line); err != nil {
				return written, err
			}
			added.add(line, data.Len()-from)
			n++
		}
		if _, err := f.out.Write(data.Bytes()); err != nil {
			f.giveUp()
			return written, err
		}
		written += n
		f.written(added)
	}
	return written, nil
}

// next returns the seq of the next line.
func (f *files) next(now time.Time) uint64 {
	f.last = max(f.last+1, seqAt(now))
	return f.last
}

func seqAt(at time.Time) uint64 { return uint64(max(at.UnixMicro(), 0)) }

// written records lines that were added to the last segment.
func (f *files) written(added *segment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.segments[len(f.segments)-1]
	s.last, s.size = added.last, s.size+added.size
	for name, bytes := range added.held {
		s.held[name] += bytes
	}
	close(f.wake)
	f.wake = make(chan struct{})
	if s.size >= f.segmentBytes {
		_ = f.out.Close()
		f.out = nil
	}
}

// giveUp cuts off what a failed write has written. If that fails too, the rest of a line stays, and
// readers skip it.
func (f *files) giveUp() {
	_ = f.out.Truncate(f.segments[len(f.segments)-1].size)
	_ = f.out.Close()
	f.out = nil
}

func (f *files) set(segments []*segment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.segments = segments
}

// begin opens the last segment, if it has room, or a new one. The first lines of a new one say whose
// lines gave way to it.
func (f *files) begin(now time.Time) (err error) {
	if n := len(f.segments); n > 0 && f.segments[n-1].size < f.segmentBytes {
		f.out, err = open(f.segments[n-1].path)
		return err
	}
	gone, err := f.makeRoom()
	if err != nil {
		return err
	}
	path := filepath.Join(f.dir, fmt.Sprintf("%020d%s", max(f.last+1, seqAt(now)), ending))
	if f.out, err = open(path); err != nil {
		return err
	}
	f.set(append(slices.Clone(f.segments), &segment{path: path, held: make(audit.Segment)}))
	for i := range gone {
		gone[i].Time = now
	}
	_, err = f.append(gone, now)
	return err
}

func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// makeRoom removes lines until a segment fits in. It returns lines that say which have been removed.
func (f *files) makeRoom() (gone []audit.Line, err error) {
	for {
		total := int64(0)
		held := make([]audit.Segment, len(f.segments))
		for i, s := range f.segments {
			total += s.size
			held[i] = s.held
		}
		i, account, ok := audit.Victim(held)
		if total <= f.maxBytes-f.segmentBytes || !ok {
			return gone, nil
		}
		line, err := f.remove(i, account)
		if err != nil {
			return gone, err
		}
		at := slices.IndexFunc(gone, func(l audit.Line) bool { return l.Role == line.Role && l.User == line.User })
		if at < 0 {
			gone = append(gone, line)
		} else {
			gone[at].Count += line.Count
		}
	}
}

// remove removes the lines of an account from a segment. What is left moves to the segment before, if
// it fits in. It returns a line that says how many decisions have been removed. After a crash at any
// moment no line of another account is missing.
func (f *files) remove(i int, account string) (gone audit.Line, err error) {
	old := f.segments[i]
	s, kept, gone, err := scan(old.path, account)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return gone, err
	}
	left := slices.Clone(f.segments)
	switch {
	case len(kept) > 0 && (i == 0 || left[i-1].size+s.size > f.segmentBytes):
		left[i] = s
		if err := replace(old.path, kept); err != nil {
			return gone, err
		}
		f.set(left)
		return gone, nil
	case len(kept) > 0:
		before := left[i-1]
		data, err := os.ReadFile(before.path)
		if err == nil {
			err = replace(before.path, append(data, kept...))
		}
		if err != nil {
			return gone, err
		}
		left[i-1] = &segment{path: before.path, last: s.last, size: before.size + s.size, held: sum(before.held, s.held)}
	}
	// Readers look for the file no longer when it is removed. It may have been removed by somebody else.
	f.set(slices.Delete(left, i, i+1))
	if err := os.Remove(old.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return gone, err
	}
	return gone, nil
}

// replace replaces the content of a file as a whole.
func replace(path string, data []byte) error {
	file, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), path)
}

func sum(a, b audit.Segment) audit.Segment {
	all := make(audit.Segment, len(a)+len(b))
	for _, s := range []audit.Segment{a, b} {
		for name, bytes := range s {
			all[name] += bytes
		}
	}
	return all
}

// close closes the last file.
func (f *files) close() {
	if f.out != nil {
		_ = f.out.Close()
		f.out = nil
	}
}
