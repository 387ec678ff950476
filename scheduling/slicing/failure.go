package slicing

import "slices"

const (
	// Ways is the number of parts into which slices with a record that no job survives are cut.
	// Bisection would need more failures than operations usually allow: with 16 ways, a record of
	// 100 bytes in 1 MiB is found after four failures.
	Ways = 16
	// Tail is how many bytes of input before the point of failure are suspected first: what the
	// job's pipe and buffers may hold, and some more.
	Tail = 1 << 20
)

// Failure is a job that has failed on its slices.
type Failure struct {
	// Fed is the part of its slices that was passed to the job. Rest is the part that was not.
	Fed, Rest []Slice
	// Rows is the number of records in Fed.
	Rows int64
	// Before is how many jobs have failed on exactly these slices before.
	Before int
	// Divided means that the slices are a part of larger slices on which an earlier job failed.
	Divided bool
}

// Next is the consequence of a failure. The zero value means that the slices are read again as
// they are.
type Next struct {
	// Parts replace the slices: each is read by a job of its own.
	Parts [][]Slice
	// Lone means that the slices have a single record, which is to blame.
	Lone bool
}

// AfterFailure returns how to continue with the slices of a job that has failed.
//
// The first failure may have had any cause, so the slices are read again. After the second they are
// cut, and parts that fail are cut again at once. A job that was not given all of its input has most
// likely failed on one of the last records that it got. A job that was given all of its input may have
// failed on any record. A record that is alone in its slices is to blame once it has failed twice.
func AfterFailure(f Failure) Next {
	complete := len(f.Rest) == 0
	switch {
	case complete && f.Rows == 0:
		// No record is to blame.
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

// suspects cuts slices so that a record that no job survives is soon alone. The parts contain all
// bytes, in order.
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
