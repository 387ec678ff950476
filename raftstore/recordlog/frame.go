// Package recordlog frames records in append-only files. Each frame has a checksum, so that the
// remains of an interrupted write are not mistaken for records. The package also replaces whole
// files atomically.
//
// The checksum also covers the frame's offset, so that old data of another file on the disk is not
// mistaken for a record.
package recordlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"
)

// HeaderSize is the size of a frame's header, in bytes.
const HeaderSize = 16

// Castagnoli is the table for the CRC-32C checksums.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrNoFrame is returned if there is no valid frame at an offset.
var ErrNoFrame = errors.New("no valid record")

// Format is the layout of the frames in one kind of file. A header holds a mark, the length of the
// record, a checksum, and a tag. The tag is a number whose meaning the file defines.
type Format struct {
	// Each file begins with Signature. Each frame begins with Mark.
	Signature, Mark string
	// MaxRecord bounds a record, in bytes.
	MaxRecord int
	// LengthAt, SumAt and TagAt are offsets in a header. With LongTag, the tag has 8 bytes, and the
	// checksum covers it before the length. Without LongTag, the tag has 4 bytes, and the checksum
	// covers it after the length.
	LengthAt, SumAt, TagAt int
	LongTag                bool
}

// Frame is a frame with a valid checksum.
type Frame struct {
	Tag    uint64
	Record []byte
	// End is the offset of the next frame.
	End int64
}

// Append appends the frame of a record to data, which will be written at offset.
func (f Format) Append(data []byte, offset int64, tag uint64, record proto.Message) ([]byte, error) {
	at := len(data)
	out, err := proto.MarshalOptions{}.MarshalAppend(append(data, make([]byte, HeaderSize)...), record)
	if err != nil {
		return data, fmt.Errorf("encode record: %w", err)
	}
	header, encoded := out[at:at+HeaderSize], out[at+HeaderSize:]
	if len(encoded) > f.MaxRecord {
		return data, fmt.Errorf("encode record: has %d bytes, the limit is %d", len(encoded), f.MaxRecord)
	}
	copy(header, f.Mark)
	binary.LittleEndian.PutUint32(header[f.LengthAt:], uint32(len(encoded)))
	if f.LongTag {
		binary.LittleEndian.PutUint64(header[f.TagAt:], tag)
	} else {
		binary.LittleEndian.PutUint32(header[f.TagAt:], uint32(tag))
	}
	binary.LittleEndian.PutUint32(header[f.SumAt:], f.sum(offset+int64(at), tag, encoded))
	return out, nil
}

func (f Format) sum(offset int64, tag uint64, record []byte) uint32 {
	place := binary.LittleEndian.AppendUint64(make([]byte, 0, 20), uint64(offset))
	if f.LongTag {
		place = binary.LittleEndian.AppendUint64(place, tag)
	}
	place = binary.LittleEndian.AppendUint32(place, uint32(len(record)))
	if !f.LongTag {
		place = binary.LittleEndian.AppendUint32(place, uint32(tag))
	}
	return crc32.Update(crc32.Checksum(place, Castagnoli), Castagnoli, record)
}

// Read reads the frame at an offset of a file of this size. It returns ErrNoFrame if
// there is no valid frame.
func (f Format) Read(file io.ReaderAt, offset, size int64) (Frame, error) {
	var header [HeaderSize]byte
	if offset+HeaderSize > size {
		return Frame{}, ErrNoFrame
	}
	if _, err := file.ReadAt(header[:], offset); err != nil {
		return Frame{}, err
	}
	length := binary.LittleEndian.Uint32(header[f.LengthAt:])
	frame := Frame{Tag: uint64(binary.LittleEndian.Uint32(header[f.TagAt:])), End: offset + HeaderSize + int64(length)}
	if f.LongTag {
		frame.Tag = binary.LittleEndian.Uint64(header[f.TagAt:])
	}
	if string(header[:len(f.Mark)]) != f.Mark || int64(length) > int64(f.MaxRecord) || frame.End > size {
		return Frame{}, ErrNoFrame
	}
	frame.Record = make([]byte, length)
	if _, err := file.ReadAt(frame.Record, offset+HeaderSize); err != nil {
		return Frame{}, err
	}
	if f.sum(offset, frame.Tag, frame.Record) != binary.LittleEndian.Uint32(header[f.SumAt:]) {
		return Frame{}, ErrNoFrame
	}
	return frame, nil
}
