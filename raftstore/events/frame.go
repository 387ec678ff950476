package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	"weir/messages/eventpb"
)

// signature begins each segment.
const signature = "weir events 1\n"

// A frame is the length of the record, its checksum, the log index, and the record.
// The checksum covers the frame's place and index too, so that what an earlier file
// left on the disk is not taken for a record.
const (
	headerSize = 16
	// maxRecord bounds a record, in bytes: a log entry of the largest size that starts
	// jobs has far less.
	maxRecord = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNoFrame is returned where bytes are no frame.
var errNoFrame = errors.New("no valid record")

// appendFrame appends an entry to data, which is to stand at an offset of the segment.
func appendFrame(data []byte, offset int64, entry *eventpb.Entry) ([]byte, error) {
	at := len(data)
	data = append(data, make([]byte, headerSize)...)
	data, err := proto.MarshalOptions{}.MarshalAppend(data, entry)
	if err != nil {
		return data[:at], fmt.Errorf("encode events of index %d: %w", entry.GetIndex(), err)
	}
	payload := data[at+headerSize:]
	if len(payload) > maxRecord {
		return data[:at], fmt.Errorf("encode events of index %d: %d bytes, the limit is %d", entry.GetIndex(), len(payload), maxRecord)
	}
	binary.LittleEndian.PutUint32(data[at:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(data[at+8:], entry.GetIndex())
	binary.LittleEndian.PutUint32(data[at+4:], checksum(offset+int64(at), entry.GetIndex(), payload))
	return data, nil
}

func checksum(offset int64, index uint64, payload []byte) uint32 {
	var place [20]byte
	binary.LittleEndian.PutUint64(place[:], uint64(offset))
	binary.LittleEndian.PutUint64(place[8:], index)
	binary.LittleEndian.PutUint32(place[16:], uint32(len(payload)))
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, payload)
}

// header is the beginning of a frame.
type header struct {
	length, sum uint32
	index       uint64
}

func readHeader(data []byte) header {
	return header{
		length: binary.LittleEndian.Uint32(data), sum: binary.LittleEndian.Uint32(data[4:]), index: binary.LittleEndian.Uint64(data[8:]),
	}
}

// check returns an error unless payload is that of the frame at offset.
func (h header) check(offset int64, payload []byte) error {
	if len(payload) != int(h.length) || checksum(offset, h.index, payload) != h.sum {
		return errNoFrame
	}
	return nil
}

// decode returns the entry of a frame that checks.
func (h header) decode(payload []byte) (*eventpb.Entry, error) {
	entry := new(eventpb.Entry)
	if err := proto.Unmarshal(payload, entry); err != nil {
		return nil, fmt.Errorf("decode events of index %d: %w", h.index, err)
	}
	return entry, nil
}

// frameAt returns the header of the frame at an offset of data and where it ends;
// false: there is none that checks.
func frameAt(data []byte, offset int) (h header, end int, ok bool) {
	if len(data)-offset < headerSize {
		return h, 0, false
	}
	h = readHeader(data[offset:])
	begin := offset + headerSize
	if h.length > maxRecord || int(h.length) > len(data)-begin {
		return h, 0, false
	}
	end = begin + int(h.length)
	return h, end, h.check(int64(offset), data[begin:end]) == nil
}
