package auditlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// read calls each for the complete lines of a file, beginning at an offset. It returns the offset after
// the last of them.
func read(file io.ReadSeeker, offset int64, each func(seq uint64, raw []byte) error) (int64, error) {
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		raw, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
		if err := each(seqOf(raw), raw); err != nil {
			return offset, err
		}
		offset += int64(len(raw))
	}
}

// seqOf returns the seq of a line, which is its first field; 0 if there is none.
func seqOf(raw []byte) uint64 {
	rest, _ := bytes.CutPrefix(raw, []byte(`{"seq":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	seq, _ := strconv.ParseUint(string(digits), 10, 64)
	return seq
}

// maxPart bounds what is sent at once, in bytes.
const maxPart = 256 << 10

// cursor is a place in an open file. The file stays readable if another takes its name.
type cursor struct {
	path   string
	file   *os.File
	offset int64
}

// open moves the cursor to the beginning of a file.
func (c *cursor) open(path string) (err error) {
	c.close()
	if c.file, err = os.Open(path); err == nil {
		c.path = path
	}
	return err
}

func (c *cursor) close() {
	if c.path != "" {
		_ = c.file.Close()
	}
	*c = cursor{}
}

// follow sends the lines with a greater seq than `after`, and the seq after which it goes on. With
// wait it goes on with new lines until ctx is done.
func (f *files) follow(ctx context.Context, after uint64, wait bool, send func(lines []string, after uint64) error) error {
	var at cursor
	defer at.close()
	for ctx.Err() == nil {
		s, more := f.from(after)
		if s == nil && !wait {
			return nil
		}
		if s == nil {
			select {
			case <-more:
			case <-ctx.Done():
			}
			continue
		}
		if s.path != at.path {
			err := at.open(s.path)
			if errors.Is(err, fs.ErrNotExist) {
				after = f.withoutFile(s, after)
				continue
			}
			if err != nil {
				return err
			}
		}
		p := part{after: after, send: send}
		from := at.offset
		var err error
		if at.offset, err = read(at.file, from, p.add); err == nil {
			err = p.flush()
		}
		switch {
		case err != nil:
			return err
		case p.after > after:
			after = p.after
		case from > 0:
			// Another file may have taken its name.
			at.close()
		default:
			after = max(after, s.last)
		}
	}
	return context.Cause(ctx)
}

// withoutFile returns after which seq a reader goes on who did not find the file of a segment. If the
// segment still is in the list, somebody else has removed the file.
func (f *files) withoutFile(missing *segment, after uint64) uint64 {
	if s, _ := f.from(after); s != nil && s.path == missing.path {
		return max(after, s.last)
	}
	return after
}

// from returns the first segment with lines after a seq; nil if there is none, with a channel that is
// closed when there are more lines.
func (f *files) from(after uint64) (*segment, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.segments {
		if s.last > after {
			return &segment{path: s.path, last: s.last}, f.wake
		}
	}
	return nil, f.wake
}

// latest returns a seq that no line has exceeded so far: now, or later if the clock was set back.
func (f *files) latest(now time.Time) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	latest := seqAt(now)
	for _, s := range f.segments {
		latest = max(latest, s.last)
	}
	return latest
}

// latestLines sends the last n of the lines with a seq greater than after and less than before, in order. It reads
// the files from the newest on, as many as it needs.
func (f *files) latestLines(ctx context.Context, after, before uint64, n int, send func(lines []string, after uint64) error) error {
	f.mu.Lock()
	segments := slices.Clone(f.segments)
	f.mu.Unlock()
	var lines []found
	for i := len(segments) - 1; i >= 0 && len(lines) < n && segments[i].last > after; i-- {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		some, err := linesOf(segments[i].path, after, before, n-len(lines))
		// Lines whose file is gone were dropped meanwhile.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		lines = append(some, lines...)
	}
	p := part{after: after, send: send}
	for _, line := range lines {
		if err := p.add(line.seq, line.raw); err != nil {
			return err
		}
	}
	return p.flush()
}

// found is a line in a file.
type found struct {
	seq uint64
	raw []byte
}

// linesOf returns the last n lines of a file with a seq greater than after and less than before.
func linesOf(path string, after, before uint64, n int) (last []found, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	_, err = read(file, 0, func(seq uint64, raw []byte) error {
		if seq > after && seq < before {
			last = append(last, found{seq, raw})
		}
		if len(last) >= 2*n {
			last = append(last[:0], last[len(last)-n:]...)
		}
		return nil
	})
	return last[max(0, len(last)-n):], err
}

// part gathers lines to be sent at once.
type part struct {
	after uint64
	lines []string
	bytes int
	send  func(lines []string, after uint64) error
}

func (p *part) add(seq uint64, raw []byte) error {
	if seq <= p.after {
		return nil
	}
	p.after = seq
	p.lines = append(p.lines, strings.TrimSuffix(string(raw), "\n"))
	if p.bytes += len(raw); p.bytes < maxPart {
		return nil
	}
	return p.flush()
}

func (p *part) flush() error {
	if len(p.lines) == 0 {
		return nil
	}
	lines := p.lines
	p.lines, p.bytes = nil, 0
	return p.send(lines, p.after)
}
