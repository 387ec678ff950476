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

// frames have the distance from the first byte of their batch for a tag. Messages with
// specs are far smaller than what a record may have.
var frames = recordlog.Format{Mark: "\x00WJ\xff", MaxRecord: 16 << 20, LengthAt: 4, TagAt: 8, SumAt: 12}

// appendFrame appends a record to a file that has size bytes, data at its end, in a batch that
// began at batch.
func appendFrame(data []byte, size, batch int64, record *journalpb.Record) ([]byte, error) {
	return frames.Append(data, size-int64(len(data)), uint64(size-batch), record)
}

// frame is a frame that checks, and where its batch begins.
type frame struct {
	recordlog.Frame
	batch int64
}

// frameAt returns the frame at an offset; false: there is none that checks.
func frameAt(data []byte, offset int64) (frame, bool) {
	f, err := frames.Read(bytes.NewReader(data), offset, int64(len(data)))
	return frame{f, offset - int64(f.Tag)}, err == nil && int64(f.Tag) <= offset
}

// replay gives each record of a file to take, in order, and returns where the last
// one ends. What follows may be cut off.
func replay(data []byte, take func(*journalpb.Record) error) (end int64, err error) {
	if !bytes.HasPrefix(data, []byte(signature)) {
		return 0, fmt.Errorf("%w at offset 0: does not begin as a journal", ErrDamaged)
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

// checkTail tells the end of a crash from damage. A batch is on disk as a whole
// before the next is written, so a frame of a later batch shows that there was a
// record at offset.
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
