package slicing

import "slices"

const (
	// Ways is into how many parts slices are cut in which there is a record that no job
	// survives. Of two, it would be found only after as many failures as operations
	// seldom allow: with 16, one of 100 bytes is found in 1 MiB after four.
	Ways = 16
	// Tail is how much of what a job was given before it failed is looked at first: what
	// its pipe and its own buffers may hold, and then some.
	Tail = 1 << 20
)

// Failure is a job that has failed on its slices.
type Failure struct {
	// Fed is what the job was given of its slices, Rest what it was not.
	Fed, Rest []Slice
	// Rows is how many records it was given.
	Rows int64
	// Before is how many jobs have failed on exactly these slices before.
	Before int
	// Divided: the slices are a part of others on which a job has failed.
	Divided bool
}

// Next is what follows from a failure. Nothing set: the slices are read again in full.
type Next struct {
	// Parts are to be read each by a job of its own, instead of the slices.
	Parts [][]Slice
	// Lone: there is but one record, in the one slice, and it is to blame.
	Lone bool
}

// AfterFailure returns what is to be done with the slices of a job that has failed.
//
// The first failure may have had any cause, so the slices are read again. After that
// they are cut, and parts of them that fail are cut again at once: a job that was not
// given all has most likely died of the last records that it got, one that was, of any.
// A record that is alone is to blame after it has failed twice.
func AfterFailure(f Failure) Next {
	complete := len(f.Rest) == 0
	switch {
	case complete && f.Rows == 0:
		// There is no record to blame.
		return Next{}
	case f.Before == 0 && (!f.Divided || complete && f.Rows == 1):
		return Next{}
	case complete && f.Rows == 1 && len(f.Fed) > 1:
		return Next{Parts: slices.Collect(slices.Chunk(f.Fed, 1))}
	case complete && f.Rows == 1, Bytes(f.Fed)+Bytes(f.Rest) == 1:
		return Next{Lone: true}
	}
	return Next{Parts: suspects(f)}
}

// suspects cuts slices so that a record that no job survives is soon alone. All bytes are
// in the parts, in order.
func suspects(f Failure) [][]Slice {
	fed := Bytes(f.Fed)
	if len(f.Rest) == 0 {
		return Divide(f.Fed, Ways)
	}
	if fed == 0 {
		return Divide(f.Rest, Ways)
	}
	var parts [][]Slice
	border := max(0, fed-Tail)
	if border > 0 {
		parts = append(parts, Part(f.Fed, 0, border))
	}
	parts = append(parts, Divide(Part(f.Fed, border, fed), Ways)...)
	return append(parts, f.Rest)
}
