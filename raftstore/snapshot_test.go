package raftstore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/raftstore/state"
)

// smallSnapshot returns a state with a pool and a node, and its snapshot.
func smallSnapshot(tb testing.TB) (*state.State, []byte) {
	tb.Helper()
	s := state.New()
	for i, msg := range []proto.Message{
		&commandpb.BeginTerm{Term: 1, Replica: "r1", ClusterId: "test"},
		poolCreation("ads"),
		poolCreation("search"),
	} {
		if result, _ := s.Apply(uint64(i+1), msg); result.GetRefusal() != nil {
			tb.Fatalf("%T: %s", msg, result.GetRefusal().GetMessage())
		}
	}
	return s, encode(tb, s)
}

func encode(tb testing.TB, s *state.State) []byte {
	tb.Helper()
	var out bytes.Buffer
	if _, err := writeSnapshot(&out, s.Freeze().Encoded); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestSnapshotRoundTrip(t *testing.T) {
	s, data := smallSnapshot(t)
	restored, info, err := readSnapshot(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if info.index != s.LastIndex() || info.bytes != int64(len(data)) {
		t.Errorf("got %+v of %d bytes, want index %d", info, len(data), s.LastIndex())
	}
	if !bytes.Equal(encode(t, restored), data) {
		t.Error("the snapshot of a restored state differs from the one that it was restored from")
	}
}

func TestSnapshotCutAnywhere(t *testing.T) {
	_, data := smallSnapshot(t)
	for n := range data {
		if s, _, err := readSnapshot(bytes.NewReader(data[:n])); !errors.Is(err, ErrSnapshotDamaged) || s != nil {
			t.Errorf("cut at byte %d of %d: got %v, want ErrSnapshotDamaged and no state", n, len(data), err)
		}
	}
	if _, _, err := readSnapshot(bytes.NewReader(append(data, 0))); !errors.Is(err, ErrSnapshotDamaged) {
		t.Errorf("a byte too many: got %v, want ErrSnapshotDamaged", err)
	}
}

func TestSnapshotWithAFlippedBit(t *testing.T) {
	_, data := smallSnapshot(t)
	for i := range len(data) * 8 {
		flipped := bytes.Clone(data)
		flipped[i/8] ^= 1 << (i % 8)
		if s, _, err := readSnapshot(bytes.NewReader(flipped)); err == nil || s != nil {
			t.Errorf("bit %d of byte %d flipped: read without error", i%8, i/8)
		}
	}
}

func TestSnapshotsThatAreRefused(t *testing.T) {
	of := func(format, version uint32) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Header{Header: &statepb.SnapshotHeader{Format: format, Version: version}}}
	}
	header := func(format uint32) *statepb.Record { return of(format, 0) }
	node := &statepb.Record{Record: &statepb.Record_Node{Node: &statepb.Node{Id: "n"}}}
	tests := map[string]struct {
		records []*statepb.Record
		want    error
		text    string
	}{
		"a newer format":  {[]*statepb.Record{header(4)}, ErrSnapshotFormat, "it has format 4, but cluster version 1 has format 2: start the version that wrote it"},
		"an older format": {[]*statepb.Record{header(1)}, ErrSnapshotFormat, "it has format 1, but cluster version 1 has format 2: start the version that wrote it"},
		"a newer version": {[]*statepb.Record{of(4, 3)}, ErrSnapshotFormat, "it needs cluster version 3, but this program (weir 0.2.0) works with cluster versions 1 to 2: start a newer weir"},
		"not its format":  {[]*statepb.Record{of(2, 2)}, ErrSnapshotFormat, "it has format 2, but cluster version 2 has format 3"},
		"no format":       {[]*statepb.Record{header(0)}, ErrSnapshotDamaged, "format 0"},
		"no header":       {[]*statepb.Record{node}, ErrSnapshotDamaged, "header out of place"},
		"two headers":     {[]*statepb.Record{header(2), header(2)}, ErrSnapshotDamaged, "header out of place"},
		"no record":       {nil, ErrSnapshotDamaged, "there is no record before the footer"},
		"an empty one":    {[]*statepb.Record{header(2), {}}, ErrSnapshotDamaged, "unknown record kind"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var data []byte
			records := slices.Concat(test.records, []*statepb.Record{nil})
			for i, record := range records {
				if i == len(test.records) {
					record = &statepb.Record{Record: &statepb.Record_Footer{Footer: &statepb.SnapshotFooter{
						Records: uint64(len(test.records)), Checksum: crc32.Checksum(data, castagnoli),
					}}}
				}
				content, err := proto.Marshal(record)
				if err != nil {
					t.Fatal(err)
				}
				data = append(binary.AppendUvarint(data, uint64(len(content))), content...)
			}
			_, _, err := readSnapshot(bytes.NewReader(data))
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
		})
	}
}

// largeSnapshot returns the snapshot of a state with a record of several pieces between others.
func largeSnapshot(tb testing.TB) (data []byte, info snapshotInfo) {
	tb.Helper()
	_, small := smallSnapshot(tb)
	s, _, err := readSnapshot(bytes.NewReader(small))
	if err != nil {
		tb.Fatal(err)
	}
	var out bytes.Buffer
	info, err = writeSnapshot(&out, func(yield func(*statepb.Record, []byte) error) error {
		return s.Freeze().Records(func(record *statepb.Record) error {
			if record.GetArchive() != nil {
				for i, size := range []int{5 * pieceBytes, 10, pieceBytes - 100, pieceBytes} {
					node := &statepb.Node{Id: fmt.Sprint("n", i), Incarnation: 1, State: statepb.NodeOnline, Tree: "default", Caveat: strings.Repeat("x", size)}
					if err := yield(&statepb.Record{Record: &statepb.Record_Node{Node: node}}, nil); err != nil {
						return err
					}
				}
			}
			return yield(record, nil)
		})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out.Bytes(), info
}

// TestLargeRecordsAreWrittenInPieces writes records larger than a piece, and reads them again. No
// record of the stream is larger than a piece.
func TestLargeRecordsAreWrittenInPieces(t *testing.T) {
	data, written := largeSnapshot(t)
	restored, read, err := readSnapshot(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if read != written || len(restored.Nodes()) != 4 || len(restored.Nodes()[0].GetCaveat()) != 5*pieceBytes {
		t.Errorf("read %+v with %d nodes, written %+v", read, len(restored.Nodes()), written)
	}
	if again, _, err := readSnapshot(bytes.NewReader(encode(t, restored))); err != nil || !bytes.Equal(encode(t, again), encode(t, restored)) {
		t.Errorf("equal states give other bytes: %v", err)
	}
	stream := bytes.NewReader(data)
	for stream.Len() > 0 {
		size, err := binary.ReadUvarint(stream)
		if err != nil || size > pieceBytes+16 {
			t.Fatalf("a record of %d bytes: %v", size, err)
		}
		if _, err := stream.Seek(int64(size), io.SeekCurrent); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPiecesThatAreRefused changes the pieces of a record.
func TestPiecesThatAreRefused(t *testing.T) {
	piece := func(data []byte, last bool) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Piece{Piece: &statepb.RecordPiece{Data: data, Last: last}}}
	}
	node := &statepb.Record{Record: &statepb.Record_Node{Node: &statepb.Node{Id: "n"}}}
	header := &statepb.Record{Record: &statepb.Record_Header{Header: &statepb.SnapshotHeader{Format: state.Format(1)}}}
	content := func(record *statepb.Record) []byte {
		data, err := proto.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, test := range map[string]struct {
		records []*statepb.Record
		text    string
	}{
		"no last piece":        {[]*statepb.Record{header, piece(content(node)[:2], false), node}, "a record lacks its last piece"},
		"nothing after it":     {[]*statepb.Record{header, piece(content(node), false)}, "a record lacks its last piece"},
		"a header in pieces":   {[]*statepb.Record{header, piece(content(header), true)}, "pieces of a record of unknown kind"},
		"a piece in pieces":    {[]*statepb.Record{header, piece(content(piece(nil, true)), true)}, "pieces of a record of unknown kind"},
		"bytes of no record":   {[]*statepb.Record{header, piece([]byte{255}, true)}, "content"},
		"pieces before header": {[]*statepb.Record{piece(content(node), true)}, "header out of place"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w := &recordWriter{out: bufio.NewWriter(&out), sum: crc32.New(castagnoli)}
			for _, record := range test.records {
				if err := w.counted(record); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(w.frame(footerRecord(w.info.records, w.sum.Sum32())), w.out.Flush()); err != nil {
				t.Fatal(err)
			}
			if _, _, err := readSnapshot(&out); !errors.Is(err, ErrSnapshotDamaged) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %q", err, test.text)
			}
		})
	}
}

func TestSnapshotNeedsItsHeaderFirst(t *testing.T) {
	_, err := writeSnapshot(new(bytes.Buffer), func(yield func(*statepb.Record, []byte) error) error {
		return yield(&statepb.Record{Record: &statepb.Record_Node{Node: &statepb.Node{Id: "n"}}}, nil)
	})
	if err == nil {
		t.Error("written without error")
	}
}

func FuzzReadSnapshot(f *testing.F) {
	_, data := smallSnapshot(f)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		restored, _, err := readSnapshot(bytes.NewReader(data))
		if err == nil && restored == nil || err != nil && restored != nil {
			t.Fatalf("got state %v and error %v", restored, err)
		}
	})
}
