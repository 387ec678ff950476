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

// FileName is what an agent calls its journal, in its state folder.
const FileName = "journal"

// Tail reads a journal while its agent writes it, and gives each record once, in
// order. The zero Tail has read nothing.
type Tail struct {
	file *os.File
	// next is where the first frame begins that has not been given.
	next int64
	// anew: this is not the first file.
	anew bool
}

// Read gives take the records that have come to the journal in path since the last
// call. That there is no journal yet is no error. A file that was written anew begins
// with what earlier records amount to, which is not given again. Between two calls a
// journal may be written anew once.
func (t *Tail) Read(path string, take func(*journalpb.Record) error) error {
	for {
		// Before the file is read: one that has been replaced does not grow any more.
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

// replaced says whether the file that is open is not the one that is there now.
func (t *Tail) replaced(now fs.FileInfo) (bool, error) {
	if t.file == nil {
		return false, nil
	}
	own, err := t.file.Stat()
	return err == nil && !os.SameFile(own, now), err
}

// open goes on with the file in path.
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
			// The rest of it is still to come, or is cut off by the agent.
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

// Close forgets the journal.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
