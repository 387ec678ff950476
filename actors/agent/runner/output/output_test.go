package output

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readAll reads a stream from the beginning to its end.
func readAll(t interface{ Fatalf(string, ...any) }, folder string, limit int64) []byte {
	var all []byte
	offset := int64(0)
	for {
		part, err := Read(folder, "stdout", offset, limit)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		if len(part.Data) == 0 {
			if part.Next != part.Total {
				t.Fatalf("Read at %d: no data, next %d, total %d", offset, part.Next, part.Total)
			}
			return all
		}
		all = append(all, part.Data...)
		offset = part.Next
	}
}

// stream returns n bytes that differ from place to place.
func stream(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.Bytes()[:n]
}

func TestKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "weir-output")
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer os.RemoveAll(folder)
		limit := rapid.IntRange(0, 200).Draw(t, "limit")
		sizes := rapid.SliceOfN(rapid.IntRange(0, 90), 0, 20).Draw(t, "writes")
		total := 0
		for _, size := range sizes {
			total += size
		}
		data := stream(total)
		writer := NewWriter(folder, "stdout", int64(limit))
		rest := data
		for _, size := range sizes {
			if n, err := writer.Write(rest[:size]); n != size || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
			rest = rest[size:]
			if kept, err := Size(folder); err != nil || kept > int64(limit) {
				t.Fatalf("kept %d bytes of at most %d, error %v", kept, limit, err)
			}
		}
		if err := writer.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		kept, err := Size(folder)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if writer.Written() != int64(total) || writer.Dropped() != int64(total)-kept {
			t.Fatalf("written %d of %d, dropped %d, kept %d", writer.Written(), total, writer.Dropped(), kept)
		}
		if total <= limit/2+limit/2/tailFiles*tailFiles && kept != int64(total) {
			t.Fatalf("dropped %d of %d bytes below the limit %d", writer.Dropped(), total, limit)
		}
		checkText(t, readAll(t, folder, int64(rapid.IntRange(1, 70).Draw(t, "read limit"))), data, limit, writer.Dropped())
	})
}

// checkText compares what is read with what was written.
func checkText(t *rapid.T, got, data []byte, limit int, dropped int64) {
	if dropped == 0 {
		if !bytes.Equal(got, data) {
			t.Fatalf("read %q, want %q", got, data)
		}
		return
	}
	head := data[:min(len(data), limit-limit/2)]
	if !bytes.HasPrefix(got, head) {
		t.Fatalf("read %q, want it to begin with %q", got, head)
	}
	tail := limit / 2 / tailFiles * (tailFiles - 1)
	if limit/2/tailFiles == 0 {
		return
	}
	if !bytes.HasSuffix(got, data[len(data)-min(len(data), tail):]) {
		t.Fatalf("read %q, want it to end with the last %d bytes of the stream", got, tail)
	}
	if marker := gapLine(dropped); !bytes.Contains(got, marker) {
		t.Fatalf("read %q, want %q in it", got, marker)
	}
}

func TestReadFromTheEnd(t *testing.T) {
	folder := t.TempDir()
	writer := NewWriter(folder, "stderr", 1000)
	fmt.Fprint(writer, "first line\nlast line\n")
	part, err := Read(folder, "stderr", -10, 100)
	if err != nil || string(part.Data) != "last line\n" || part.Next != 21 || part.Total != 21 {
		t.Errorf("Read: %q, next %d, total %d, %v", part.Data, part.Next, part.Total, err)
	}
	if err := writer.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestReadOfNothing(t *testing.T) {
	part, err := Read(t.TempDir(), "stdout", 77, 10)
	if err != nil || len(part.Data) != 0 || part.Next != 0 || part.Total != 0 {
		t.Errorf("Read: %+v, %v, want an empty part", part, err)
	}
	if _, err := Read(t.TempDir(), "stdout", 0, 0); err == nil || !strings.Contains(err.Error(), "limit 0") {
		t.Errorf("Read with limit 0: error %v, want it named", err)
	}
}

func TestDiskRefuses(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "missing")
	writer := NewWriter(folder, "stdout", 100)
	if n, err := writer.Write([]byte("lost")); n != 4 || err != nil {
		t.Errorf("Write: %d, %v, want the job not to notice", n, err)
	}
	if writer.Dropped() != 4 || writer.Written() != 4 {
		t.Errorf("dropped %d, written %d, want 4 and 4", writer.Dropped(), writer.Written())
	}
	if err := writer.Close(); err == nil || !strings.Contains(err.Error(), "store stdout") {
		t.Errorf("Close: %v, want the disk's refusal", err)
	}
}
