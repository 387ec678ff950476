package records_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"weir/scheduling/records"
)

// read reads the slice [begin, end) of data in blocks of that size and returns what of
// the file belongs to it.
func read(format records.Format, data []byte, begin, end, limit int64, block int) (string, records.Counts, error) {
	s := records.NewScanner(format, begin, end, limit)
	var all strings.Builder
	for !s.Done() {
		next := data[s.Offset():min(int64(len(data)), s.Offset()+int64(block))]
		if len(next) == 0 {
			if _, err := s.EndOfFile(); err != nil {
				return all.String(), s.Counts(), err
			}
			break
		}
		part, err := s.Scan(next)
		if err != nil {
			return all.String(), s.Counts(), err
		}
		all.Write(part)
	}
	return all.String(), s.Counts(), nil
}

// plainCounts counts lines in the plain way.
func plainCounts(data string) records.Counts {
	want := records.Counts{Bytes: int64(len(data))}
	for line := range strings.Lines(data) {
		want.Rows++
		want.Hash += xxhash.Sum64String(strings.TrimSuffix(line, "\n"))
	}
	return want
}

// border is where the records end that begin before a cut, by the definition.
func border(data string, cut int64) int64 {
	end := int64(0)
	for line := range strings.Lines(data) {
		if end >= cut {
			break
		}
		end += int64(len(line))
	}
	return end
}

var text = rapid.Custom(func(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.StringMatching(`[ab]{0,4}\n?`), 0, 12).Draw(t, "text"), "")
})

// TestAnyCutsGiveEachRecordOnce holds slices against the definition of whose a record
// is, for any text, any cuts and any blocks.
func TestAnyCutsGiveEachRecordOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := text.Draw(t, "data")
		size := int64(len(data))
		format := rapid.SampledFrom([]records.Format{records.Lines, records.Bytes}).Draw(t, "format")
		block := rapid.IntRange(1, 8).Draw(t, "block")
		cuts := append(rapid.SliceOfN(rapid.Int64Range(0, size), 0, 6).Draw(t, "cuts"), 0, size)
		slices.Sort(cuts)
		var all string
		var sum records.Counts
		for i, begin := range cuts[:len(cuts)-1] {
			end := cuts[i+1]
			got, counts, err := read(format, []byte(data), begin, end, 0, block)
			want := data[begin:end]
			if format == records.Lines {
				want = data[border(data, begin):border(data, end)]
			}
			if err != nil || got != want {
				t.Fatalf("slice [%d, %d) of %q: %q, %v, want %q", begin, end, data, got, err, want)
			}
			all += got
			sum = sum.Plus(counts)
		}
		want := records.Counts{Bytes: size}
		if format == records.Lines {
			want = plainCounts(data)
		}
		if all != data || sum != want {
			t.Fatalf("all slices of %q: %q, %+v, want %+v", data, all, sum, want)
		}
	})
}

// TestStoppedAnywhereTheRestIsTheRest: what was read before a border and what begins
// behind it is the slice, as are both parts of it, wherever it is cut.
func TestStoppedAnywhereTheRestIsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := text.Draw(t, "data")
		begin := rapid.Int64Range(0, int64(len(data))).Draw(t, "begin")
		end := rapid.Int64Range(begin, int64(len(data))).Draw(t, "end")
		whole, wantCounts, err := read(records.Lines, []byte(data), begin, end, 0, 4)
		if err != nil {
			t.Fatal(err)
		}
		stop := border(data, begin)
		for line := range strings.Lines(whole) {
			if rapid.Bool().Draw(t, "stop here") {
				break
			}
			stop += int64(len(line))
		}
		first := data[min(border(data, begin), stop):stop]
		rest, restCounts, err := read(records.Lines, []byte(data), max(stop, begin), end, 0, 4)
		if err != nil || first+rest != whole || plainCounts(first).Plus(restCounts) != wantCounts {
			t.Fatalf("[%d, %d) of %q, stopped at %d: %q and %q, %v, want %q", begin, end, data, stop, first, rest, err, whole)
		}
		middle := rapid.Int64Range(begin, end).Draw(t, "middle")
		left, leftCounts, leftErr := read(records.Lines, []byte(data), begin, middle, 0, 4)
		right, rightCounts, rightErr := read(records.Lines, []byte(data), middle, end, 0, 4)
		if err := errors.Join(leftErr, rightErr); err != nil || left+right != whole || leftCounts.Plus(rightCounts) != wantCounts {
			t.Fatalf("[%d, %d) of %q, cut at %d: %q and %q, %v, want %q", begin, end, data, middle, left, right, err, whole)
		}
	})
}

// scanFault is input with a fault, and where it is.
type scanFault struct {
	format     records.Format
	data       string
	begin, end int64
	limit      int64
	want       records.Fault
	wantDetail string
}

// checkFaults reads input in blocks of many sizes: the fault is the same.
func checkFaults(t *testing.T, cases map[string]scanFault) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			for block := 1; block <= len(test.data); block += 1 + block/10 {
				_, _, err := read(test.format, []byte(test.data), test.begin, test.end, test.limit, block)
				var got *records.Fault
				if !errors.As(err, &got) {
					t.Fatalf("blocks of %d: error %v, want %+v", block, err, test.want)
				}
				if !strings.Contains(got.Detail, test.wantDetail) || !strings.Contains(err.Error(), fmt.Sprintf("record %d of the slice", test.want.Row)) {
					t.Errorf("blocks of %d: %v, want %q and the record named", block, err, test.wantDetail)
				}
				test.want.Detail = got.Detail
				if *got != test.want {
					t.Errorf("blocks of %d: %+v, want %+v", block, *got, test.want)
				}
			}
		})
	}
}

// TestFaultsOfText has lines that are too long or binary.
func TestFaultsOfText(t *testing.T) {
	checkFaults(t, map[string]scanFault{
		"a line that is too long": {
			format: records.Lines, data: "four\nfive5\n", end: 11, limit: 4,
			want: records.Fault{Kind: records.RecordTooLong, Row: 2, Begin: 5, Offset: 9}, wantDetail: "longer than 4 bytes",
		},
		"a last line that is too long, in a slice of its own": {
			format: records.Lines, data: "four\nfive5", begin: 3, end: 10, limit: 4,
			want: records.Fault{Kind: records.RecordTooLong, Row: 1, Begin: 5, Offset: 9}, wantDetail: "max_record_size",
		},
		"a zero byte": {
			format: records.Lines, data: "text\nbin\x00ary\n", end: 13,
			want: records.Fault{Kind: records.BinaryInput, Row: 2, Begin: 5, Offset: 8}, wantDetail: `"bytes"`,
		},
		"a zero byte in front of what is too much": {
			format: records.Lines, data: "b\x00nary\n", end: 7, limit: 3,
			want: records.Fault{Kind: records.BinaryInput, Row: 1, Begin: 0, Offset: 1}, wantDetail: "not text",
		},
		"a zero byte behind what is too much": {
			format: records.Lines, data: "binar\x00\n", end: 7, limit: 3,
			want: records.Fault{Kind: records.RecordTooLong, Row: 1, Begin: 0, Offset: 3}, wantDetail: "longer than 3 bytes",
		},
	})
}

// TestFaultsOfJSON has lines that are no JSON values.
func TestFaultsOfJSON(t *testing.T) {
	checkFaults(t, map[string]scanFault{
		"no JSON": {
			format: records.JSON, data: "{}\n{\"a\":x}\n", end: 11,
			want: records.Fault{Kind: records.InvalidJSON, Row: 2, Begin: 3, Offset: 8}, wantDetail: "found 'x', expected a value",
		},
		"half a JSON value": {
			format: records.JSON, data: "[1,\n2]\n", end: 7,
			want: records.Fault{Kind: records.InvalidJSON, Row: 1, Begin: 0, Offset: 3}, wantDetail: "found the end of the line, expected a value",
		},
		"half a JSON value at the end of the file": {
			format: records.JSON, data: "1\n[1", end: 4,
			want: records.Fault{Kind: records.InvalidJSON, Row: 2, Begin: 2, Offset: 4}, wantDetail: "found the end of the line, expected a digit, or the end of the number",
		},
		"an empty line is no JSON value": {
			format: records.JSON, data: "1\n\n2\n", end: 5,
			want: records.Fault{Kind: records.InvalidJSON, Row: 2, Begin: 2, Offset: 2}, wantDetail: "expected a value",
		},
		"two JSON values": {
			format: records.JSON, data: "1 2\n", end: 4,
			want: records.Fault{Kind: records.InvalidJSON, Row: 1, Begin: 0, Offset: 2}, wantDetail: "expected the end of the line after the value",
		},
		"JSON behind what is too much is not looked at": {
			format: records.JSON, data: "[1,2,3,x]\n", end: 10, limit: 5,
			want: records.Fault{Kind: records.RecordTooLong, Row: 1, Begin: 0, Offset: 5}, wantDetail: "longer than 5 bytes",
		},
		"a byte that no JSON has": {
			format: records.JSON, data: "\xff\n", end: 2,
			want: records.Fault{Kind: records.InvalidJSON, Row: 1, Begin: 0, Offset: 0}, wantDetail: "found byte 0xff",
		},
		"JSON that is too deep": {
			format: records.JSON, data: strings.Repeat("[", 10001) + "\n", end: 10002,
			want: records.Fault{Kind: records.InvalidJSON, Row: 1, Begin: 0, Offset: 10000}, wantDetail: "more than 10000 levels",
		},
	})
}

func TestOthersFaultsAreTheirs(t *testing.T) {
	data := "a long line\x00\nfine\nanother long line\x00\n"
	got, counts, err := read(records.Lines, []byte(data), 3, 15, 4, 5)
	if err != nil || got != "fine\n" || counts.Rows != 1 {
		t.Errorf("the slice between faults: %q, %+v, %v, want its one line", got, counts, err)
	}
}

func TestLastLineWithoutEnd(t *testing.T) {
	tests := map[string]struct {
		data string
		want bool
	}{
		"nothing":        {data: "", want: false},
		"a line":         {data: "a\n", want: false},
		"half a line":    {data: "a\nb", want: true},
		"an empty line":  {data: "\n", want: false},
		"half one alone": {data: "b", want: true},
	}
	for name, test := range tests {
		s := records.NewScanner(records.Lines, 0, 100, 0)
		if _, err := s.Scan([]byte(test.data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := s.EndOfFile(); got != test.want || err != nil || s.Counts() != plainCounts(test.data) {
			t.Errorf("%s: unended %v, %+v, %v, want %v", name, got, s.Counts(), err, test.want)
		}
	}
}

func TestCountLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := text.Draw(t, "data")
		complete := data[:strings.LastIndexByte(data, '\n')+1]
		if got, want := records.CountLines([]byte(data)), plainCounts(complete); got != want {
			t.Fatalf("CountLines(%q) = %+v, want %+v", data, got, want)
		}
		tail := complete[border(complete, rapid.Int64Range(0, int64(len(complete))).Draw(t, "cut")):]
		head := complete[:len(complete)-len(tail)]
		if got, want := plainCounts(complete).Minus(records.CountLines([]byte(tail))), plainCounts(head); got != want {
			t.Fatalf("without %q of %q: %+v, want %+v", tail, complete, got, want)
		}
	})
}

// FuzzSlices cuts any bytes anywhere, as any format: no slice takes a byte twice, none is
// lost, and all blocks give the same.
func FuzzSlices(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree"), uint16(5), uint8(2), uint8(3), uint8(0))
	f.Add([]byte("{\"a\":[1,2.5e-3,\"\\u00e9\"]}\nnull\n"), uint16(3), uint8(1), uint8(0), uint8(1))
	f.Add([]byte("a\x00b\n"), uint16(1), uint8(7), uint8(0), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, cut uint16, block, limit, kind uint8) {
		size := int64(len(data))
		middle := min(size, int64(cut))
		format := []records.Format{records.Lines, records.JSON, records.Bytes}[kind%3]
		whole, counts, err := read(format, data, 0, size, int64(limit), len(data)+1)
		left, leftCounts, leftErr := read(format, data, 0, middle, int64(limit), int(block)+1)
		right, rightCounts, rightErr := read(format, data, middle, size, int64(limit), int(block)+1)
		if (err == nil) != (leftErr == nil && rightErr == nil) {
			t.Fatalf("%q, cut at %d: %v, want %v and %v", data, middle, err, leftErr, rightErr)
		}
		if err == nil && (left+right != whole || whole != string(data) || leftCounts.Plus(rightCounts) != counts) {
			t.Fatalf("%q, cut at %d: %q and %q, %+v and %+v, want %+v", data, middle, left, right, leftCounts, rightCounts, counts)
		}
		if err != nil && leftErr != nil && leftErr.Error() != err.Error() {
			t.Fatalf("%q: %v, want %v", data, leftErr, err)
		}
	})
}

// corpus is text of lines of about that length.
func corpus(line int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < 1<<20 {
		for range random.IntN(2 * line) {
			b.WriteByte('a' + byte(random.IntN(26)))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func BenchmarkScan(b *testing.B) {
	json := bytes.Repeat([]byte(`{"id": 12345, "name": "some name or other", "tags": ["a", "b"], "score": 0.123e-4, "ok": true}`+"\n"), 10000)
	tests := []struct {
		name   string
		format records.Format
		data   []byte
	}{
		{"lines/40", records.Lines, corpus(40)},
		{"lines/400", records.Lines, corpus(400)},
		{"json", records.JSON, json},
		{"bytes", records.Bytes, corpus(40)},
	}
	for _, test := range tests {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(test.data)))
			b.ReportAllocs()
			s := records.NewScanner(test.format, 0, 1<<62, 1<<20)
			for b.Loop() {
				for rest := test.data; len(rest) > 0; {
					n := min(len(rest), 256<<10)
					if _, err := s.Scan(rest[:n]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}
