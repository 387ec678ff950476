package records

import "fmt"

// Kind is what is wrong with a record.
type Kind string

// The kinds of faults.
const (
	// RecordTooLong is a record that is longer than allowed.
	RecordTooLong Kind = "record_too_long"
	// InvalidJSON is a line that is not one JSON value.
	InvalidJSON Kind = "invalid_json"
	// BinaryInput is a zero byte in a text.
	BinaryInput Kind = "binary_input"
)

// Fault is a record that cannot be read, and where it is.
type Fault struct {
	Kind Kind
	// Row is the number of the record within its slice, from 1 on.
	Row int64
	// Begin is where the record begins in the file, and Offset what is wrong there: the
	// byte, or the first one that is too many.
	Begin, Offset int64
	// Detail says what is wrong, for people.
	Detail string
}

// Position is the number of the wrong byte within its record, from 1 on.
func (f *Fault) Position() int64 { return f.Offset - f.Begin + 1 }

// Error implements error. The file is the caller's to name.
func (f *Fault) Error() string {
	return fmt.Sprintf("record %d of the slice, at byte %d of the file: position %d (byte %d of the file): %s",
		f.Row, f.Begin, f.Position(), f.Offset, f.Detail)
}
