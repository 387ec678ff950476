package journal

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"weir/messages/journalpb"
	"weir/raftstore/recordlog"
)

// ErrDamaged is returned for a journal that does not hold what was written to it.
var ErrDamaged = errors.New("is damaged")

// signature begins the file.
const signature = "weir agent journal\n"

// frames is the format of the records. The tag of a frame is its distance from the first byte
// of its batch. MaxRecord is far above the size of messages with specs.
var frames = recordlog.Format{Mark: "\x00WJ\xff", MaxRecord: 16 << 20, LengthAt: 4, TagAt: 8, SumAt: 12}

// appendFrame appends a record to data, which holds the end of a file. size is the length of the
// file, and batch is the offset at which the record's batch begins.
func appendFrame(data []byte, size, batch int64, record *journalpb.Record) ([]byte, error) {
	return frames.Append(data, size-int64(len(data)), uint64(size-batch), record)
}

// frame is a valid frame, and the offset at which its batch begins.
type frame struct {
	recordlog.Frame
	batch int64
}

// frameAt returns the frame at an offset; false: there is no valid frame.
func frameAt(data []byte, offset int64) (frame, bool) {
	f, err := frames.Read(bytes.NewReader(data), offset, int64(len(data)))
	return frame{f, offset - int64(f.Tag)}, err == nil && int64(f.Tag) <= offset
}

// replay calls take with each record of a file, in order, and returns where the last one ends.
// The caller may cut off the bytes after that.
func replay(data []byte, take func(*journalpb.Record) error) (end int64, err error) {
	if !bytes.HasPrefix(data, []byte(signature)) {
		return 0, fmt.Errorf("%w at offset 0: does not begin with the signature of a journal", ErrDamaged)
	}
	for end = int64(len(signature)); end < int64(len(data)); {
		f, ok := frameAt(data, end)
		if !ok {
			return end, checkTail(data, end)
		}
		record := new(journalpb.Record)
		if err := proto.Unmarshal(f.Record, record); err != nil {
			return end, fmt.Errorf("%w at offset %d: %w", ErrDamaged, end, err)
		}
		if err := take(record); err != nil {
			return end, fmt.Errorf("at offset %d: %w", end, err)
		}
		end = f.End
	}
	return end, nil
}

// checkTail returns an error if the file is damaged at offset, rather than cut short by a
// crash. A batch is on disk as a whole before the next is written, so a valid frame of a later
// batch proves that there was a record at offset.
func checkTail(data []byte, offset int64) error {
	for at := offset + 1; at+recordlog.HeaderSize <= int64(len(data)); at++ {
		if !bytes.HasPrefix(data[at:], []byte(frames.Mark)) {
			continue
		}
		if f, ok := frameAt(data, at); ok && f.batch > offset {
			return fmt.Errorf("%w at offset %d: bad checksum, with valid records after it at %d", ErrDamaged, offset, at)
		}
	}
	return nil
}
