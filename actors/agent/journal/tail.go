package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"google.golang.org/protobuf/proto"

	"weir/messages/journalpb"
	"weir/raftstore/recordlog"
)

// FileName is the name of an agent's journal in its state folder.
const FileName = "journal"

// Tail reads a journal while its agent writes it, and gives each record once, in
// order. The zero Tail has read nothing.
type Tail struct {
	file *os.File
	// next is the offset of the first frame not yet returned.
	next int64
	// anew: file is a rewritten journal, not the first file read.
	anew bool
}

// Read calls take with the records added to the journal at path since the last call. A missing
// journal is not an error. The first batch of a rewritten journal repeats the state and is
// skipped. A journal may be rewritten at most once between two calls.
func (t *Tail) Read(path string, take func(*journalpb.Record) error) error {
	for {
		// Check before reading: a replaced file no longer grows.
		now, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read journal %s: %w", path, err)
		}
		replaced, err := t.replaced(now)
		if err == nil && t.file != nil {
			err = t.read(take)
		}
		if err == nil && t.file != nil && !replaced {
			return nil
		}
		if err == nil {
			err = t.open(path)
		}
		if err != nil {
			return fmt.Errorf("read journal %s: %w", path, err)
		}
	}
}

// replaced reports whether the open file is no longer the one at the path.
func (t *Tail) replaced(now fs.FileInfo) (bool, error) {
	if t.file == nil {
		return false, nil
	}
	own, err := t.file.Stat()
	return err == nil && !os.SameFile(own, now), err
}

// open continues with the file at path.
func (t *Tail) open(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	if t.file != nil {
		err = t.file.Close()
		t.anew = true
	}
	t.file, t.next = file, int64(len(signature))
	return err
}

func (t *Tail) read(take func(*journalpb.Record) error) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	for {
		begin := t.next
		f, err := frames.Read(t.file, begin, info.Size())
		if errors.Is(err, recordlog.ErrNoFrame) {
			// The frame is incomplete: the agent is still writing it, or will cut it off.
			return nil
		}
		if err != nil {
			return err
		}
		t.next = f.End
		if t.anew && begin-int64(f.Tag) == int64(len(signature)) {
			continue
		}
		record := new(journalpb.Record)
		if err := proto.Unmarshal(f.Record, record); err != nil {
			return err
		}
		if err := take(record); err != nil {
			return err
		}
	}
}

// Close closes the file.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
