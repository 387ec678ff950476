package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
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
	if _, err := writeSnapshot(&out, s.Freeze().Records); err != nil {
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
	header := func(format uint32) *statepb.Record {
		return &statepb.Record{Record: &statepb.Record_Header{Header: &statepb.SnapshotHeader{Format: format}}}
	}
	node := &statepb.Record{Record: &statepb.Record_Node{Node: &statepb.Node{Id: "n"}}}
	tests := map[string]struct {
		records []*statepb.Record
		want    error
		text    string
	}{
		"a newer format":  {[]*statepb.Record{header(state.Format + 1)}, ErrSnapshotFormat, "it has format 3, but this version reads format 2: start the version that wrote it"},
		"an older format": {[]*statepb.Record{header(state.Format - 1)}, ErrSnapshotFormat, "it has format 1, but this version reads format 2: start the version that wrote it"},
		"no format":       {[]*statepb.Record{header(0)}, ErrSnapshotDamaged, "format 0"},
		"no header":       {[]*statepb.Record{node}, ErrSnapshotDamaged, "header out of place"},
		"two headers":     {[]*statepb.Record{header(state.Format), header(state.Format)}, ErrSnapshotDamaged, "header out of place"},
		"no record":       {nil, ErrSnapshotDamaged, "there is no record before the footer"},
		"an empty one":    {[]*statepb.Record{header(state.Format), {}}, ErrSnapshotDamaged, "unknown record kind"},
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

func TestSnapshotNeedsItsHeaderFirst(t *testing.T) {
	_, err := writeSnapshot(new(bytes.Buffer), func(yield func(*statepb.Record) error) error {
		return yield(&statepb.Record{Record: &statepb.Record_Node{Node: &statepb.Node{Id: "n"}}})
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
