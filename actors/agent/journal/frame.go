package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	"weir/messages/journalpb"
)

// ErrDamaged is returned for a journal that does not hold what was written to it.
var ErrDamaged = errors.New("is damaged")

// signature begins the file.
const signature = "weir agent journal\n"

// A frame is mark, length of the record, distance from the first byte of its batch,
// checksum, and the record. The checksum covers the frame's place too, so that what
// an earlier file left on the disk is not taken for a record.
const (
	mark       = "\x00WJ\xff"
	headerSize = 16
	// maxRecord bounds a record, in bytes. Messages with specs are far smaller.
	maxRecord = 16 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends a record to a file that has size bytes, in a batch that
// began at batch.
func appendFrame(data []byte, size, batch int64, record *journalpb.Record) ([]byte, error) {
	payload, err := proto.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	if len(payload) > maxRecord {
		return nil, fmt.Errorf("encode record: has %d bytes, the limit is %d", len(payload), maxRecord)
	}
	data = append(data, mark...)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(payload)))
	data = binary.LittleEndian.AppendUint32(data, uint32(size-batch))
	data = binary.LittleEndian.AppendUint32(data, checksum(size, uint32(len(payload)), uint32(size-batch), payload))
	return append(data, payload...), nil
}

func checksum(offset int64, length, distance uint32, payload []byte) uint32 {
	var place [16]byte
	binary.LittleEndian.PutUint64(place[:], uint64(offset))
	binary.LittleEndian.PutUint32(place[8:], length)
	binary.LittleEndian.PutUint32(place[12:], distance)
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, payload)
}

// frame is a frame that checks.
type frame struct {
	payload []byte
	// batch is where its batch begins, end where the next frame does.
	batch, end int
}

// frameAt returns the frame at an offset; false: there is none that checks.
func frameAt(data []byte, offset int) (frame, bool) {
	if len(data)-offset < headerSize || string(data[offset:offset+4]) != mark {
		return frame{}, false
	}
	length := binary.LittleEndian.Uint32(data[offset+4:])
	distance := binary.LittleEndian.Uint32(data[offset+8:])
	sum := binary.LittleEndian.Uint32(data[offset+12:])
	begin := offset + headerSize
	if length > maxRecord || int(length) > len(data)-begin || int64(distance) > int64(offset) {
		return frame{}, false
	}
	payload := data[begin : begin+int(length)]
	if checksum(int64(offset), length, distance, payload) != sum {
		return frame{}, false
	}
	return frame{payload: payload, batch: offset - int(distance), end: begin + int(length)}, true
}

// replay gives each record of a file to take, in order, and returns where the last
// one ends. What follows may be cut off.
func replay(data []byte, take func(*journalpb.Record) error) (end int, err error) {
	if len(data) < len(signature) || string(data[:len(signature)]) != signature {
		return 0, fmt.Errorf("%w at offset 0: does not begin as a journal", ErrDamaged)
	}
	for offset := len(signature); offset < len(data); {
		f, ok := frameAt(data, offset)
		if !ok {
			return offset, checkTail(data, offset)
		}
		record := new(journalpb.Record)
		if err := proto.Unmarshal(f.payload, record); err != nil {
			return offset, fmt.Errorf("%w at offset %d: %w", ErrDamaged, offset, err)
		}
		if err := take(record); err != nil {
			return offset, fmt.Errorf("at offset %d: %w", offset, err)
		}
		offset = f.end
	}
	return len(data), nil
}

// checkTail tells the end of a crash from damage. A batch is on disk as a whole
// before the next is written, so a frame of a later batch shows that there was a
// record at offset.
func checkTail(data []byte, offset int) error {
	for at := offset + 1; at+headerSize <= len(data); at++ {
		if data[at] != mark[0] {
			continue
		}
		if f, ok := frameAt(data, at); ok && f.batch > offset {
			return fmt.Errorf("%w at offset %d: bad checksum, with valid records after it at %d", ErrDamaged, offset, at)
		}
	}
	return nil
}
