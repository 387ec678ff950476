package records

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Format is how a file is divided into records.
type Format string

// The formats.
const (
	// Lines are texts without NUL bytes, one per line.
	Lines Format = "lines"
	// JSON is one JSON value per line.
	JSON Format = "json"
	// Bytes are not divided into records: only bytes are counted.
	Bytes Format = "bytes"
)

// Bordered reports whether a file of this format can be cut only between records.
func (f Format) Bordered() bool { return f != Bytes }

// Counts are the amounts of data read.
type Counts struct {
	// Rows is the number of records; 0 for Bytes.
	Rows int64
	// Bytes is the number of bytes in the file, including ends of line.
	Bytes int64
	// Hash is the sum of the XXH64 of each record, without its end of line, modulo 2^64.
	Hash uint64
}

// Plus returns c + other.
func (c Counts) Plus(other Counts) Counts {
	return Counts{Rows: c.Rows + other.Rows, Bytes: c.Bytes + other.Bytes, Hash: c.Hash + other.Hash}
}

// Minus returns the difference c - other, where other is a part of c.
func (c Counts) Minus(other Counts) Counts {
	return Counts{Rows: c.Rows - other.Rows, Bytes: c.Bytes - other.Bytes, Hash: c.Hash - other.Hash}
}

// CountLines counts the complete lines of text.
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
