package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// drawParts makes files and returns slices of them, in order, and what a job gets of
// them.
func drawParts(t *rapid.T, folder string) ([]proxyproto.FeedPart, string) {
	var parts []proxyproto.FeedPart
	var stream strings.Builder
	for file := range rapid.IntRange(1, 3).Draw(t, "files") {
		var text strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "lines") {
			length := rapid.SampledFrom([]int{0, 1, 100, 4095, 4096, 9000}).Draw(t, "length")
			text.WriteString(strings.Repeat("x", length) + "\n")
		}
		text.WriteString(rapid.SampledFrom([]string{"", "without end"}).Draw(t, "tail"))
		path := filepath.Join(folder, string(rune('a'+file)))
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		size := int64(text.Len())
		cut := rapid.Int64Range(0, size).Draw(t, "cut")
		for _, slice := range [][2]int64{{0, cut}, {cut, size}} {
			parts = append(parts, proxyproto.FeedPart{Path: path, Size: size, Begin: slice[0], End: slice[1]})
		}
		for line := range strings.Lines(text.String()) {
			stream.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return parts, stream.String()
}

// drawFeeder feeds parts, by little pieces.
func drawFeeder(t *rapid.T, parts []proxyproto.FeedPart) (*feeder, *os.File) {
	pipe, err := newInputPipe(4096)
	if err != nil {
		t.Fatal(err)
	}
	f := newFeeder(&proxyproto.Feed{Format: string(records.Lines), Parts: parts, MaxRecordBytes: 1 << 20}, nil, pipe)
	f.block = f.block[:rapid.SampledFrom([]int{10, 1000, 4096, 20000}).Draw(t, "block")]
	go f.run(func(fault *proxyproto.InputFault) { t.Errorf("fault %v", fault) })
	return f, pipe.job
}

// leftover is what another job gets of the rest.
func leftover(t *rapid.T, parts []proxyproto.FeedPart, rest *proxyproto.FeedPosition) string {
	if rest == nil {
		return ""
	}
	parts = append([]proxyproto.FeedPart(nil), parts[rest.Part:]...)
	if parts[0].Begin > rest.Offset || rest.Offset > parts[0].End {
		t.Fatalf("the rest begins at %d, and its part is [%d, %d)", rest.Offset, parts[0].Begin, parts[0].End)
	}
	parts[0].Begin = rest.Offset
	f, job := drawFeeder(t, parts)
	all, err := io.ReadAll(job)
	f.finish()
	_ = job.Close()
	if count := f.count(false); err != nil || count.Rest != nil || count.Rows != int64(strings.Count(string(all), "\n")) {
		t.Fatalf("the job of the rest has read %+v, %v, want all", count, err)
	}
	return string(all)
}

// TestWhateverIsReadTheRestIsExact reads some of any input. Then the job is interrupted
// and reads on, or ends, or both.
func TestWhateverIsReadTheRestIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "weir-feed")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(folder)
		parts, stream := drawParts(t, folder)
		f, job := drawFeeder(t, parts)
		read := rapid.IntRange(0, len(stream)).Draw(t, "read")
		if _, err := io.ReadFull(job, make([]byte, read)); err != nil {
			t.Fatalf("read %d bytes of %d: %v", read, len(stream), err)
		}
		// The borders before and after what was read.
		before := strings.LastIndexByte(stream[:read], '\n') + 1
		after := read
		if before < read {
			after += strings.IndexByte(stream[read:], '\n') + 1
		}
		if rapid.Bool().Draw(t, "interrupted") {
			f.stop()
			if rapid.Bool().Draw(t, "reads on") {
				// It may get more than the end of its record before the feeder notices.
				more, err := io.ReadAll(job)
				got := read + len(more)
				if err != nil || got < before || !strings.HasPrefix(stream[read:], string(more)) || got > 0 && stream[got-1] != '\n' {
					t.Fatalf("interrupted after %d bytes, it reads %d more, %v, want whole records", read, len(more), err)
				}
				before, after = got, got
			}
		}
		f.finish()
		_ = job.Close()
		count := f.count(false)
		rest := leftover(t, parts, count.Rest)
		got := len(stream) - len(rest)
		if !strings.HasSuffix(stream, rest) || got != before && got != after {
			t.Fatalf("%d bytes of %d were read: the rest has %d, want a record's border next to that", read, len(stream), len(rest))
		}
		want := records.CountLines([]byte(stream[:got]))
		if count.Rows != want.Rows || count.Hash != want.Hash {
			t.Fatalf("count %+v, want %+v", count, want)
		}
		var size int64
		for _, part := range parts {
			size += part.End - part.Begin
		}
		if count.Rest == nil && count.Bytes != size {
			t.Fatalf("all was read, and %d bytes are counted, want %d", count.Bytes, size)
		}
	})
}
