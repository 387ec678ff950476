package raftstore

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
	"weir/messages/versions"
	"weir/raftstore/recordlog"
	"weir/raftstore/state"
)

// A snapshot is a stream of records, each preceded by its length as a varint: a header
// with the format number, the records of the state, and a footer with their count and the
// CRC-32C of every byte before it. A record of more than pieceBytes is written in pieces,
// each a record of the stream, so that no record is too large to be written and sent.

const (
	// pieceBytes is the most that is written of a record at once.
	pieceBytes = 4 << 20
	// maxRecordBytes bounds one record of a stream. A stream with a greater length is damaged.
	// Snapshots of old have whole records of up to this size.
	maxRecordBytes = 256 << 20
)

var castagnoli = recordlog.Castagnoli

// snapshotInfo says what a snapshot holds.
type snapshotInfo struct {
	// index is that of the last log entry in the snapshot.
	index uint64
	// records counts the records of the stream, including the header but not the footer.
	records uint64
	bytes   int64
}

// writeSnapshot writes the records that the function `each` yields, as messages or as bytes, the header first, and a footer.
// Equal records give equal bytes.
func writeSnapshot(w io.Writer, each func(yield func(record *statepb.Record, encoded []byte) error) error) (snapshotInfo, error) {
	out := &recordWriter{out: bufio.NewWriterSize(w, 64<<10), sum: crc32.New(castagnoli)}
	err := each(func(record *statepb.Record, encoded []byte) error {
		if header := record.GetHeader(); header != nil {
			out.info.index = header.GetIndex()
		} else if out.info.records == 0 {
			return errors.New("the first record is not a header")
		}
		return out.write(record, encoded)
	})
	if err != nil {
		return out.info, err
	}
	if err := out.frame(footerRecord(out.info.records, out.sum.Sum32())); err != nil {
		return out.info, err
	}
	return out.info, out.out.Flush()
}

// recordWriter writes a stream record by record.
type recordWriter struct {
	out  *bufio.Writer
	sum  hash.Hash32
	info snapshotInfo
	// buffer has the bytes of the frame that was written last.
	buffer []byte
}

// deterministic has equal records encoded as equal bytes.
var deterministic = proto.MarshalOptions{Deterministic: true}

// write writes a record, a message or bytes, in pieces if it is large.
func (w *recordWriter) write(record *statepb.Record, whole []byte) (err error) {
	switch {
	case record != nil && proto.Size(record) <= pieceBytes:
		return w.counted(record)
	case record != nil:
		if whole, err = deterministic.Marshal(record); err != nil {
			return fmt.Errorf("encode record: %w", err)
		}
	case len(whole) <= pieceBytes:
		w.buffer = append(binary.AppendUvarint(w.buffer[:0], uint64(len(whole))), whole...)
		return cmp.Or(w.flush(), w.count())
	}
	for part := range slices.Chunk(whole, pieceBytes) {
		whole = whole[len(part):]
		piece := &statepb.RecordPiece{Data: part, Last: len(whole) == 0}
		if err := w.counted(&statepb.Record{Record: &statepb.Record_Piece{Piece: piece}}); err != nil {
			return err
		}
	}
	return nil
}

// counted writes one record of the stream, and adds it to the count and the checksum.
func (w *recordWriter) counted(record *statepb.Record) error {
	if err := w.frame(record); err != nil {
		return err
	}
	return w.count()
}

// count adds the frame that was written last to the count and the checksum.
func (w *recordWriter) count() error {
	w.info.records++
	_, err := w.sum.Write(w.buffer)
	return err
}

// frame writes a record after its length.
func (w *recordWriter) frame(record *statepb.Record) (err error) {
	w.buffer = binary.AppendUvarint(w.buffer[:0], uint64(proto.Size(record)))
	if w.buffer, err = deterministic.MarshalAppend(w.buffer, record); err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return w.flush()
}

// flush writes the buffer.
func (w *recordWriter) flush() error {
	w.info.bytes += int64(len(w.buffer))
	_, err := w.out.Write(w.buffer)
	return err
}

// readSnapshot reads the output of writeSnapshot to the end and builds the state. If any byte is
// not intact it returns ErrSnapshotFormat or ErrSnapshotDamaged, and no state.
func readSnapshot(r io.Reader) (*state.State, snapshotInfo, error) {
	return readSnapshotAs(r, versions.Program, nil)
}

// readSnapshotAs is readSnapshot for a program that reads some versions, and a state that uses a shelf; nil: none.
func readSnapshotAs(r io.Reader, program versions.Range, to *shelf) (*state.State, snapshotInfo, error) {
	in := &recordReader{program: program, in: bufio.NewReaderSize(r, 64<<10), sum: crc32.New(castagnoli)}
	restorer := state.NewRestorer()
	if to != nil {
		restorer.UseShelf(to, state.RecentOperations)
	}
	for {
		before := in.sum.Sum32()
		record, err := in.next()
		if err != nil {
			return nil, in.info, err
		}
		if footer := record.GetFooter(); footer != nil {
			if err := in.finish(footer, before); err != nil {
				return nil, in.info, err
			}
			break
		}
		if err := in.header(record); err != nil {
			return nil, in.info, err
		}
		in.info.records++
		if err := restorer.Add(record); err != nil {
			return nil, in.info, fmt.Errorf("%w: record %d: %w", ErrSnapshotDamaged, in.info.records, err)
		}
	}
	restored, err := restorer.State()
	if err != nil {
		return nil, in.info, fmt.Errorf("%w: %w", ErrSnapshotDamaged, err)
	}
	return restored, in.info, nil
}

// recordReader reads a stream record by record.
type recordReader struct {
	// program is what this program reads.
	program versions.Range
	in      *bufio.Reader
	sum     hash.Hash32
	info    snapshotInfo
	frame   bytes.Buffer
}

func footerRecord(records uint64, checksum uint32) *statepb.Record {
	return &statepb.Record{Record: &statepb.Record_Footer{Footer: &statepb.SnapshotFooter{Records: records, Checksum: checksum}}}
}

// next reads the next record of the state, or the footer. It puts the pieces of a record together.
func (r *recordReader) next() (*statepb.Record, error) {
	record, err := r.one()
	if err != nil || record.GetPiece() == nil {
		return record, err
	}
	var whole []byte
	for {
		piece := record.GetPiece()
		switch {
		case piece == nil:
			return nil, r.damaged("order", errors.New("a record lacks its last piece"))
		case len(whole)+len(piece.GetData()) > math.MaxInt32:
			return nil, r.damaged("length", fmt.Errorf("the pieces of a record have more than %d bytes", math.MaxInt32))
		}
		if whole = append(whole, piece.GetData()...); piece.GetLast() {
			break
		}
		r.info.records++
		if record, err = r.one(); err != nil {
			return nil, err
		}
	}
	record = new(statepb.Record)
	if err := proto.Unmarshal(whole, record); err != nil {
		return nil, r.damaged("content", err)
	}
	if record.GetRecord() == nil || record.GetPiece() != nil || record.GetHeader() != nil || record.GetFooter() != nil {
		return nil, r.damaged("content", errors.New("pieces of a record of unknown kind"))
	}
	return record, nil
}

// one reads one record of the stream and adds it to the checksum.
func (r *recordReader) one() (*statepb.Record, error) {
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return nil, r.damaged("length", err)
	}
	if size > maxRecordBytes {
		return nil, r.damaged("length", fmt.Errorf("%d bytes is over the limit of %d", size, maxRecordBytes))
	}
	// Even if the length is wrong, this allocates no more memory than the stream has bytes.
	r.frame.Reset()
	if _, err := io.CopyN(&r.frame, r.in, int64(size)); err != nil {
		return nil, r.damaged("content", err)
	}
	prefix := binary.AppendUvarint(nil, size)
	for _, part := range [][]byte{prefix, r.frame.Bytes()} {
		if _, err := r.sum.Write(part); err != nil {
			return nil, r.damaged("checksum", err)
		}
		r.info.bytes += int64(len(part))
	}
	record := new(statepb.Record)
	if err := proto.Unmarshal(r.frame.Bytes(), record); err != nil {
		return nil, r.damaged("content", err)
	}
	if record.GetRecord() == nil {
		return nil, r.damaged("content", errors.New("unknown record kind"))
	}
	return record, nil
}

// header checks that the first record, and only the first, is a header, and that its
// format is known.
func (r *recordReader) header(record *statepb.Record) error {
	header := record.GetHeader()
	if first := r.info.records == 0; first != (header != nil) {
		return r.damaged("order", errors.New("header out of place"))
	}
	if header == nil {
		return nil
	}
	version := max(header.GetVersion(), versions.Oldest)
	if header.GetFormat() == 0 {
		return r.damaged("header", errors.New("format 0 does not exist"))
	}
	if err := r.program.Check(version); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshotFormat, err)
	}
	if format, want := header.GetFormat(), state.Format(version); format != want {
		return fmt.Errorf("%w: it has format %d, but cluster version %d has format %d: start the version that wrote it",
			ErrSnapshotFormat, format, version, want)
	}
	r.info.index = header.GetIndex()
	return nil
}

// finish checks the footer against the records before it, whose checksum is sum, and
// checks that nothing follows.
func (r *recordReader) finish(footer *statepb.SnapshotFooter, sum uint32) error {
	switch {
	case r.info.records == 0:
		return r.damaged("footer", errors.New("there is no record before the footer"))
	case footer.GetRecords() != r.info.records:
		return r.damaged("footer", fmt.Errorf("it counts %d records, but %d were read", footer.GetRecords(), r.info.records))
	case footer.GetChecksum() != sum:
		return r.damaged("footer", fmt.Errorf("stored checksum %08x, computed %08x", footer.GetChecksum(), sum))
	}
	// No checksum covers the footer itself, and different encodings decode to the same numbers.
	written, err := deterministic.Marshal(footerRecord(footer.GetRecords(), footer.GetChecksum()))
	if err != nil || !bytes.Equal(r.frame.Bytes(), written) {
		return r.damaged("footer", errors.New("its bytes differ from what a writer would have written"))
	}
	if _, err := r.in.ReadByte(); err == nil {
		return r.damaged("footer", errors.New("trailing bytes"))
	} else if !errors.Is(err, io.EOF) {
		return r.damaged("footer", err)
	}
	return nil
}

func (r *recordReader) damaged(part string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: record %d at byte %d: %s: %w", ErrSnapshotDamaged, r.info.records+1, r.info.bytes, part, err)
}
