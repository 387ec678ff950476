package records

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Format is how records are told from each other.
type Format string

// The formats.
const (
	// Lines are texts without zero bytes, each on a line.
	Lines Format = "lines"
	// JSON is one JSON value a line.
	JSON Format = "json"
	// Bytes are not told from each other: what is read is counted in bytes alone.
	Bytes Format = "bytes"
)

// Bordered says whether a file of this format can be cut at certain places only.
func (f Format) Bordered() bool { return f != Bytes }

// Counts is how much has been read.
type Counts struct {
	// Rows are records; with Bytes there are none.
	Rows int64
	// Bytes are those of the file: records with their ends of line, where they have one.
	Bytes int64
	// Hash is the sum of the XXH64 of each record, without its end of line, modulo 2^64.
	Hash uint64
}

// Plus returns the counts of both.
func (c Counts) Plus(other Counts) Counts {
	return Counts{Rows: c.Rows + other.Rows, Bytes: c.Bytes + other.Bytes, Hash: c.Hash + other.Hash}
}

// Minus takes away what c has of other.
func (c Counts) Minus(other Counts) Counts {
	return Counts{Rows: c.Rows - other.Rows, Bytes: c.Bytes - other.Bytes, Hash: c.Hash - other.Hash}
}

// CountLines counts the lines of text that are complete.
func CountLines(text []byte) Counts {
	var counts Counts
	for {
		length := bytes.IndexByte(text, '\n')
		if length < 0 {
			return counts
		}
		counts.Rows++
		counts.Bytes += int64(length) + 1
		counts.Hash += xxhash.Sum64(text[:length])
		text = text[length+1:]
	}
}
