package slicing

import "slices"

// Divide cuts slices into at most this many parts of nearly equal length, at least one byte each, to
// narrow down records that no job survives. A single byte cannot be divided.
func Divide(whole []Slice, parts int) [][]Slice {
	total := Bytes(whole)
	count := min(int64(parts), total)
	out := make([][]Slice, 0, count)
	for i := range count {
		begin, end := at(total, i, count), at(total, i+1, count)
		out = append(out, Part(whole, begin, end))
	}
	return out
}

// at returns where part i begins if `total` is divided into `count` parts. It does not multiply
// lengths, because the product could overflow.
func at(total, i, count int64) int64 {
	return total/count*i + min(i, total%count)
}

// Part returns bytes [begin, end) of the concatenated slices.
func Part(whole []Slice, begin, end int64) []Slice {
	var out []Slice
	var before int64
	for _, s := range whole {
		n := s.End - s.Begin
		from, to := max(begin-before, 0), min(end-before, n)
		if from < to {
			out = append(out, Slice{File: s.File, Begin: s.Begin + from, End: s.Begin + to})
		}
		before += n
	}
	return out
}

// Covers reports whether `processed` followed by `rest` has the same bytes as `whole`, in the same
// order. It does not matter where each of the three is cut.
func Covers(whole, processed, rest []Slice) bool {
	return slices.Equal(join(whole), join(slices.Concat(processed, rest)))
}

// join merges adjacent slices.
func join(parts []Slice) []Slice {
	var out []Slice
	for _, s := range parts {
		if last := len(out) - 1; last >= 0 && out[last].File == s.File && out[last].End == s.Begin {
			out[last].End = s.End
			continue
		}
		out = append(out, s)
	}
	return out
}
