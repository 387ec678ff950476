package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weir/raftstore/recordlog"
)

const (
	// slack is the number of bytes by which any file may grow between two rewrites. A file larger
	// than slack may double. A record has a few hundred bytes.
	slack = 1 << 20
	// reserve is how much space is reserved for later records, in bytes. On a full disk this is
	// room for the ends of thousands of jobs, and for the orders to end those that fill the disk.
	reserve = 1 << 20
	// fullPause is the pause before a full disk is written to again.
	fullPause = 100 * time.Millisecond
)

// file is the file of a journal. Writes append to it.
type file interface {
	Write(data []byte) (int, error)
	Sync() error
	Truncate(size int64) error
	// Reserve allocates disk space for a number of bytes, beginning at offset. The file's size does
	// not change.
	Reserve(offset, bytes int64) error
	Close() error
}

type diskFile struct{ *os.File }

// Reserve implements file.
func (f diskFile) Reserve(offset, bytes int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, bytes)
}

// write writes a batch to disk, then rewrites the file or reserves space if needed.
func (j *Journal) write(batch []entry) error {
	var data []byte
	var err error
	records := 0
	for _, e := range batch {
		for _, record := range e.records {
			if err := j.state.apply(record); err != nil {
				return err
			}
			if data, err = appendFrame(data, j.size+int64(len(data)), j.size, record); err != nil {
				return err
			}
			records++
		}
	}
	if len(data) == 0 {
		return nil
	}
	if err := j.put(data); err != nil {
		return err
	}
	begin := time.Now()
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.figures.wrote(records, len(data), time.Since(begin))
	if j.size += int64(len(data)); j.size > j.due {
		if err := j.rewriteIfThereIsSpace(); err != nil {
			return err
		}
	}
	return j.hold()
}

// put writes data. While the disk is full it waits, until there is space or the
// journal is closed.
func (j *Journal) put(data []byte) error {
	for {
		_, err := j.file.Write(data)
		if !full(err) || !j.opened {
			j.figures.setFull(nil)
			return err
		}
		j.figures.setFull(fmt.Errorf("write journal %s: %w: %w", j.path, ErrFull, err))
		// Remove a partial write, so that it is not read as records.
		if err := j.file.Truncate(j.size); err != nil {
			return err
		}
		j.reserved = 0
		select {
		case <-j.stop:
			return err
		case <-time.After(fullPause):
		}
	}
}

// hold reserves space for later records. If the disk has none, hold tries again after the next
// batch.
func (j *Journal) hold() error {
	if j.reserved-j.size >= reserve/2 {
		return nil
	}
	err := j.file.Reserve(j.size, reserve)
	switch {
	case err == nil:
		j.reserved = j.size + reserve
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), full(err), errors.Is(err, unix.EINTR):
		// Without a reserve, records wait when the disk is full.
	default:
		return err
	}
	return nil
}

// rewriteIfThereIsSpace rewrites the file. If the disk is full, the next attempt comes when the
// file has grown by `slack`.
func (j *Journal) rewriteIfThereIsSpace() error {
	err := j.rewrite()
	if !errors.Is(err, ErrFull) {
		return err
	}
	j.due = j.size + slack
	if err := os.Remove(j.path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// rewrite replaces the file by one that holds only the state.
func (j *Journal) rewrite() error {
	data, err := j.encode()
	if err != nil {
		return err
	}
	next, err := recordlog.Create(j.path+".new", data)
	if err != nil {
		return explain(err)
	}
	if err := recordlog.Commit(next, j.path); err != nil {
		return errors.Join(err, next.Close())
	}
	old := j.file
	j.file, j.size, j.reserved, j.due = diskFile{next}, int64(len(data)), 0, dueAfter(int64(len(data)))
	if old == nil {
		return nil
	}
	j.figures.rewrote()
	return old.Close()
}

// dueAfter returns the size at which a file is rewritten. `least` is its size after the last
// rewrite.
func dueAfter(least int64) int64 { return least + max(slack, least) }

// encode returns the smallest file that holds the state.
func (j *Journal) encode() ([]byte, error) {
	data := []byte(signature)
	var err error
	for _, record := range j.state.records() {
		if data, err = appendFrame(data, int64(len(data)), int64(len(signature)), record); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// full reports whether err is a lack of space, which may pass.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// explain wraps the error of a full disk with advice, and any other system error in ErrDisk.
func explain(err error) error {
	var system unix.Errno
	switch {
	case errors.Is(err, ErrFull), !errors.As(err, &system):
		return err
	case full(err):
		return fmt.Errorf("%w: free space there and restart the agent before the lease of its jobs expires: %w", ErrFull, err)
	default:
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
}
