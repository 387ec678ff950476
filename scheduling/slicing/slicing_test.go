package slicing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weir/scheduling/slicing"
)

var roomy = slicing.Limits{Jobs: 100000, Slices: 500}

func TestCut(t *testing.T) {
	tests := map[string]struct {
		sizes     []int64
		size      slicing.Size
		limits    slicing.Limits
		want      [][]slicing.Slice
		wantError string
	}{
		"no files are no jobs":    {size: slicing.Size{Jobs: 3}},
		"empty files are no jobs": {sizes: []int64{0, 0}, size: slicing.Size{BytesPerJob: 10}},
		"small files share a job": {
			sizes: []int64{2, 0, 3}, size: slicing.Size{BytesPerJob: 10},
			want: [][]slicing.Slice{{{File: 0, Begin: 0, End: 2}, {File: 2, Begin: 0, End: 3}}},
		},
		"a big file is cut evenly": {
			sizes: []int64{21}, size: slicing.Size{BytesPerJob: 10},
			want: [][]slicing.Slice{{{File: 0, Begin: 0, End: 7}}, {{File: 0, Begin: 7, End: 14}}, {{File: 0, Begin: 14, End: 21}}},
		},
		"as many jobs as asked for": {
			sizes: []int64{4, 3}, size: slicing.Size{Jobs: 2},
			want: [][]slicing.Slice{{{File: 0, Begin: 0, End: 4}}, {{File: 1, Begin: 0, End: 3}}},
		},
		"no more jobs than bytes": {
			sizes: []int64{2}, size: slicing.Size{Jobs: 9},
			want: [][]slicing.Slice{{{File: 0, Begin: 0, End: 1}}, {{File: 0, Begin: 1, End: 2}}},
		},
		"too many small files make more jobs": {
			sizes: []int64{1, 1, 1}, size: slicing.Size{BytesPerJob: 10}, limits: slicing.Limits{Jobs: 10, Slices: 2},
			want: [][]slicing.Slice{{{File: 0, Begin: 0, End: 1}, {File: 1, Begin: 0, End: 1}}, {{File: 2, Begin: 0, End: 1}}},
		},
		"more jobs than asked for are refused": {
			sizes: []int64{1, 1, 1}, size: slicing.Size{Jobs: 1}, limits: slicing.Limits{Jobs: 10, Slices: 2},
			wantError: "set it to 2 or more",
		},
		"too little data a job": {
			sizes: []int64{1000}, size: slicing.Size{BytesPerJob: 1}, limits: slicing.Limits{Jobs: 30, Slices: 2},
			wantError: "set data_size_per_job to 34 or more",
		},
		"too many jobs": {
			sizes: []int64{1000}, size: slicing.Size{Jobs: 31}, limits: slicing.Limits{Jobs: 30, Slices: 2},
			wantError: "set job_count to 30 or less",
		},
		"too many files": {
			sizes: []int64{1, 1, 1, 1, 1}, size: slicing.Size{BytesPerJob: 100}, limits: slicing.Limits{Jobs: 2, Slices: 2},
			wantError: "join files",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.limits == (slicing.Limits{}) {
				test.limits = roomy
			}
			got, err := slicing.Cut(test.sizes, test.size, test.limits)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("error %v, want one with %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
		})
	}
}

// inOrder fails unless the parts are the bytes of whole, each once and in order.
func inOrder(t *rapid.T, whole []slicing.Slice, parts [][]slicing.Slice) {
	t.Helper()
	if !slicing.Covers(whole, slices.Concat(parts...), nil) {
		t.Fatalf("%v are not the bytes of %v", parts, whole)
	}
	for i, part := range parts {
		if slicing.Bytes(part) == 0 {
			t.Fatalf("part %d of %v is of no byte", i, parts)
		}
	}
}

func drawSizes(t *rapid.T) (sizes []int64, whole []slicing.Slice) {
	sizes = rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 1<<40)), 0, 40).Draw(t, "sizes")
	for i, size := range sizes {
		if size > 0 {
			whole = append(whole, slicing.Slice{File: int32(i), End: size})
		}
	}
	return sizes, whole
}

func TestEveryByteIsInOneSliceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes, whole := drawSizes(t)
		var size slicing.Size
		if rapid.Bool().Draw(t, "by bytes") {
			size.BytesPerJob = rapid.Int64Range(1, 1<<41).Draw(t, "bytes per job")
		} else {
			size.Jobs = rapid.IntRange(1, 300).Draw(t, "jobs")
		}
		limits := slicing.Limits{Jobs: 1000, Slices: rapid.IntRange(1, 10).Draw(t, "slices")}
		jobs, err := slicing.Cut(sizes, size, limits)
		if err != nil {
			t.Skip(err)
		}
		inOrder(t, whole, jobs)
		for _, job := range jobs {
			if len(job) > limits.Slices || size.BytesPerJob > 0 && slicing.Bytes(job) > size.BytesPerJob {
				t.Fatalf("%v is more than a job may have", job)
			}
		}
		if total := slicing.Bytes(whole); size.Jobs > 0 && int64(len(jobs)) != min(int64(size.Jobs), total) {
			t.Fatalf("%d jobs, want %d", len(jobs), size.Jobs)
		}
		if len(jobs) > limits.Jobs {
			t.Fatalf("%d jobs", len(jobs))
		}
	})
}

func TestPartsAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, whole := drawSizes(t)
		ways := rapid.IntRange(1, 20).Draw(t, "ways")
		parts := slicing.Divide(whole, ways)
		inOrder(t, whole, parts)
		if want := min(int64(ways), slicing.Bytes(whole)); int64(len(parts)) != want {
			t.Fatalf("%d parts, want %d", len(parts), want)
		}
		border := rapid.Int64Range(0, slicing.Bytes(whole)).Draw(t, "border")
		fed, rest := slicing.Part(whole, 0, border), slicing.Part(whole, border, slicing.Bytes(whole))
		if !slicing.Covers(whole, fed, rest) {
			t.Fatalf("%v and %v are not %v", fed, rest, whole)
		}
		if next := slicing.AfterFailure(slicing.Failure{Fed: fed, Rest: rest, Rows: 2, Before: 1}); slicing.Bytes(whole) > 1 {
			inOrder(t, whole, next.Parts)
		}
	})
}

func TestCovers(t *testing.T) {
	whole := []slicing.Slice{{File: 1, Begin: 5, End: 10}, {File: 2, Begin: 0, End: 4}}
	tests := map[string]struct {
		processed, rest []slicing.Slice
		want            bool
	}{
		"all is processed":   {processed: whole, want: true},
		"nothing is":         {rest: whole, want: true},
		"cut within a slice": {processed: []slicing.Slice{{1, 5, 7}}, rest: []slicing.Slice{{1, 7, 10}, {2, 0, 4}}, want: true},
		"a byte is missing":  {processed: []slicing.Slice{{1, 5, 7}}, rest: []slicing.Slice{{1, 8, 10}, {2, 0, 4}}},
		"a byte comes twice": {processed: []slicing.Slice{{1, 5, 8}}, rest: []slicing.Slice{{1, 7, 10}, {2, 0, 4}}},
		"another file":       {processed: []slicing.Slice{{1, 5, 10}}, rest: []slicing.Slice{{3, 0, 4}}},
		"out of order":       {processed: whole[1:], rest: whole[:1]},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := slicing.Covers(whole, test.processed, test.rest); got != test.want {
				t.Errorf("covers: %t", got)
			}
		})
	}
}

func TestAfterFailure(t *testing.T) {
	whole := []slicing.Slice{{File: 0, Begin: 0, End: 4 << 20}}
	fed, rest := slicing.Part(whole, 0, 3<<20), slicing.Part(whole, 3<<20, 4<<20)
	tests := map[string]struct {
		failure   slicing.Failure
		wantLone  bool
		wantParts []int64
	}{
		"the first failure is forgiven":                  {failure: slicing.Failure{Fed: whole, Rows: 9}},
		"a job without records has nothing to divide":    {failure: slicing.Failure{Fed: whole, Before: 5}},
		"a lone record gets another try":                 {failure: slicing.Failure{Fed: whole, Rows: 1, Divided: true}},
		"and is to blame then":                           {failure: slicing.Failure{Fed: whole, Rows: 1, Before: 1}, wantLone: true},
		"of many slices, one has the record":             {failure: slicing.Failure{Fed: []slicing.Slice{{0, 1, 2}, {1, 5, 9}}, Rows: 1, Before: 1}, wantParts: []int64{1, 4}},
		"in one byte there begins one record":            {failure: slicing.Failure{Rest: whole[:0:0], Fed: slicing.Part(whole, 7, 8), Rows: 2, Before: 1}, wantLone: true},
		"one record given of many is not alone":          {failure: slicing.Failure{Fed: fed, Rest: rest, Rows: 1, Before: 1}, wantParts: tail()},
		"the last records given are suspected first":     {failure: slicing.Failure{Fed: fed, Rest: rest, Rows: 9, Before: 1}, wantParts: tail()},
		"parts are not tried twice":                      {failure: slicing.Failure{Fed: fed, Rest: rest, Rows: 9, Divided: true}, wantParts: tail()},
		"all was given, so any may be it":                {failure: slicing.Failure{Fed: whole, Rows: 9, Before: 1}, wantParts: even(4 << 20)},
		"nothing was given, so any may be it":            {failure: slicing.Failure{Rest: whole, Before: 1}, wantParts: even(4 << 20)},
		"a little was given, so all of that is suspects": {failure: slicing.Failure{Fed: slicing.Part(whole, 0, 16), Rest: slicing.Part(whole, 16, 1016), Rows: 2, Before: 1}, wantParts: append(even(16), 1000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			next := slicing.AfterFailure(test.failure)
			var parts []int64
			for _, part := range next.Parts {
				parts = append(parts, slicing.Bytes(part))
			}
			if next.Lone != test.wantLone || !slices.Equal(parts, test.wantParts) {
				t.Errorf("lone %t, parts %d, want %t and %d", next.Lone, parts, test.wantLone, test.wantParts)
			}
		})
	}
}

func even(total int64) []int64 { return slices.Repeat([]int64{total / slicing.Ways}, slicing.Ways) }

func tail() []int64 {
	return slices.Concat([]int64{2 << 20}, even(slicing.Tail), []int64{1 << 20})
}

// TestPoisonIsFoundSoon plays failures until the one record is alone.
func TestPoisonIsFoundSoon(t *testing.T) {
	const record, poison = 100, 123456700
	part, divided, before, failures := []slicing.Slice{{File: 0, End: 256 << 20}}, false, 0, 0
	for {
		failures++
		begin, end := part[0].Begin, part[0].End
		first := (begin + record - 1) / record * record
		// The job is given 64 KiB more than what it dies of.
		given := min(end, poison+64<<10)
		failure := slicing.Failure{
			Fed: slicing.Part(part, 0, given-begin), Rest: slicing.Part(part, given-begin, end-begin),
			Rows: (given-first-1)/record + 1, Before: before, Divided: divided,
		}
		next := slicing.AfterFailure(failure)
		if next.Lone {
			break
		}
		before++
		for _, p := range next.Parts {
			if p[0].Begin <= poison && poison < p[0].End {
				part, divided, before = p, true, 0
			}
		}
	}
	if failures > 7 {
		t.Errorf("found after %d failures", failures)
	}
	t.Logf("found after %d failures", failures)
}
