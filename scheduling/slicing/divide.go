package slicing

import "slices"

// Divide cuts slices into parts of equal length, at most so many, each of at least one
// byte: records that no job has survived are looked for in each alone. One byte, and
// nothing, cannot be divided.
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

// at returns where part i of count begins. The product of two lengths would be too great.
func at(total, i, count int64) int64 {
	return total/count*i + min(i, total%count)
}

// Part returns bytes [begin, end) of slices, read one after the other.
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

// Covers reports whether processed and then rest are the slices, byte for byte in order,
// however they are cut.
func Covers(whole, processed, rest []Slice) bool {
	return slices.Equal(join(whole), join(slices.Concat(processed, rest)))
}

// join puts slices that follow each other into one.
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
