package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tailFiles is how many files hold the tail of a stream.
const tailFiles = 4

// Writer writes one stream. It is an io.Writer that never fails: bytes that the disk does not take
// are counted as dropped, so a full disk does not stop a job that prints. Only one goroutine may
// use it.
type Writer struct {
	folder, stream string
	headSize       int64
	tailSize       int64

	written int64
	kept    []segment
	file    *os.File
	// err is the first error of the disk.
	err error
}

// segment is a file that holds a part of a stream.
type segment struct {
	start, size int64
}

// NewWriter returns a Writer that keeps limit bytes of the stream in folder.
// With limit 0 it counts and keeps nothing.
func NewWriter(folder, stream string, limit int64) *Writer {
	return &Writer{
		folder:   folder,
		stream:   stream,
		headSize: limit - limit/2,
		tailSize: limit / 2 / tailFiles,
	}
}

// Write accepts all bytes of `data` and never returns an error: see Err.
func (w *Writer) Write(data []byte) (int, error) {
	total := len(data)
	for len(data) > 0 {
		room := w.room()
		if room == 0 {
			w.written += int64(len(data))
			break
		}
		part := data[:min(int64(len(data)), room)]
		n, err := w.file.Write(part)
		w.kept[len(w.kept)-1].size += int64(n)
		w.written += int64(len(part))
		if err != nil {
			w.refuse(err)
			// The lost bytes leave a gap in the stream, so that the next bytes need a new file.
			w.closeFile()
		}
		data = data[len(part):]
	}
	return total, nil
}

// room returns how many more bytes the open file takes. It opens the next file if none is open. It
// returns 0 if nothing can be kept now.
func (w *Writer) room() int64 {
	if w.file != nil {
		last := w.kept[len(w.kept)-1]
		if room := w.capacity(last) - last.size; room > 0 {
			return room
		}
		w.closeFile()
	}
	next := segment{start: w.written}
	if w.capacity(next) == 0 {
		return 0
	}
	if err := w.evict(); err != nil {
		w.refuse(err)
		return 0
	}
	file, err := os.OpenFile(segmentPath(w.folder, w.stream, next.start), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		w.refuse(err)
		return 0
	}
	w.file = file
	w.kept = append(w.kept, next)
	return w.capacity(next)
}

// capacity is the size that a file may reach.
func (w *Writer) capacity(s segment) int64 {
	if s.start == 0 {
		return w.headSize
	}
	return w.tailSize
}

// evict removes the oldest tail file when there are tailFiles of them.
func (w *Writer) evict() error {
	oldest := 0
	if len(w.kept) > 0 && w.kept[0].start == 0 {
		oldest = 1
	}
	if len(w.kept)-oldest < tailFiles {
		return nil
	}
	if err := os.Remove(segmentPath(w.folder, w.stream, w.kept[oldest].start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w.kept = append(w.kept[:oldest], w.kept[oldest+1:]...)
	return nil
}

func (w *Writer) refuse(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("store %s: %w", w.stream, err)
	}
}

func (w *Writer) closeFile() {
	if w.file != nil {
		if err := w.file.Close(); err != nil {
			w.refuse(err)
		}
		w.file = nil
	}
}

// Close ends the stream and returns Err. It may be called twice.
func (w *Writer) Close() error {
	w.closeFile()
	return w.err
}

// Err is the first error of the disk, nil if there was none.
func (w *Writer) Err() error { return w.err }

// Written counts the bytes of the stream.
func (w *Writer) Written() int64 { return w.written }

// Dropped counts the bytes that are not kept.
func (w *Writer) Dropped() int64 {
	dropped := w.written
	for _, s := range w.kept {
		dropped -= s.size
	}
	return dropped
}

func segmentPath(folder, stream string, start int64) string {
	return filepath.Join(folder, fmt.Sprintf("%s.%020d", stream, start))
}
