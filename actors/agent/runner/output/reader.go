package output

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Part is a piece of a stream.
type Part struct {
	Data []byte
	// Next is the offset at which the next read should start.
	Next int64
	// Total is the offset behind the last byte that is kept. It grows while
	// the job runs.
	Total int64
}

// Read returns at most limit bytes of the stream, starting at offset; fewer at the end of a file. A
// negative offset counts from the end of the stream. An offset at or behind the end gives no data
// and Next equal to Total. Where bytes were dropped, Data is a line that says how many, and may be
// longer than limit.
func Read(folder, stream string, offset, limit int64) (Part, error) {
	if limit <= 0 {
		return Part{}, fmt.Errorf("read %s: limit %d, must be positive", stream, limit)
	}
	// A file may be evicted between being listed and being opened. The next
	// listing does not have it.
	for {
		segments, err := list(folder, stream)
		if err != nil {
			return Part{}, fmt.Errorf("read %s: %w", stream, err)
		}
		part, err := readFrom(folder, stream, segments, offset, limit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Part{}, fmt.Errorf("read %s: %w", stream, err)
		}
		return part, nil
	}
}

func readFrom(folder, stream string, segments []segment, offset, limit int64) (Part, error) {
	part := Part{}
	if len(segments) > 0 {
		last := segments[len(segments)-1]
		part.Total = last.start + last.size
	}
	if offset < 0 {
		offset = max(0, part.Total+offset)
	}
	part.Next = min(offset, part.Total)
	for _, s := range segments {
		if part.Next >= s.start+s.size {
			continue
		}
		if part.Next < s.start {
			part.Data = gapLine(s.start - part.Next)
			part.Next = s.start
			return part, nil
		}
		data, err := readSegment(folder, stream, s, part.Next, limit)
		if err != nil {
			return Part{}, err
		}
		part.Data = data
		part.Next += int64(len(data))
		return part, nil
	}
	return part, nil
}

func gapLine(dropped int64) []byte {
	return fmt.Appendf(nil, "\n[weir: %d bytes dropped here]\n", dropped)
}

func readSegment(folder, stream string, s segment, offset, limit int64) ([]byte, error) {
	file, err := os.Open(segmentPath(folder, stream, s.start))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, min(limit, s.start+s.size-offset))
	n, err := file.ReadAt(data, offset-s.start)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}

// Size is how many bytes a folder keeps, of all streams.
func Size(folder string) (size int64, err error) {
	files, err := sizes(folder)
	if err != nil {
		return 0, fmt.Errorf("measure output: %w", err)
	}
	for _, one := range files {
		size += one
	}
	return size, nil
}

// sizes returns the sizes of the files of a folder, by their names.
func sizes(folder string) (map[string]int64, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	files := make(map[string]int64, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil {
			files[entry.Name()] = info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return files, nil
}

// list returns the kept parts of a stream in order.
func list(folder, stream string) ([]segment, error) {
	files, err := sizes(folder)
	if err != nil {
		return nil, err
	}
	var segments []segment
	for name, size := range files {
		digits, found := strings.CutPrefix(name, stream+".")
		if start, err := strconv.ParseInt(digits, 10, 64); found && err == nil {
			segments = append(segments, segment{start: start, size: size})
		}
	}
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.start, b.start) })
	return segments, nil
}
