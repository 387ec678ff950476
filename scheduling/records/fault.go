package records

import "fmt"

// Kind is the kind of a fault.
type Kind string

// The kinds of faults.
const (
	// RecordTooLong is a record that is longer than allowed.
	RecordTooLong Kind = "record_too_long"
	// InvalidJSON is a line that is not one JSON value.
	InvalidJSON Kind = "invalid_json"
	// BinaryInput is a NUL byte in a text.
	BinaryInput Kind = "binary_input"
)

// Fault is an invalid record, and its position.
type Fault struct {
	Kind Kind
	// Row is the number of the record within its slice, from 1.
	Row int64
	// Begin is the offset in the file at which the record begins. Offset is the offset of the invalid
	// byte, or of the first byte beyond the limit.
	Begin, Offset int64
	// Detail describes the fault for people.
	Detail string
}

// Position is the number of the invalid byte within its record, from 1.
func (f *Fault) Position() int64 { return f.Offset - f.Begin + 1 }

// Error implements error. The caller has to name the file.
func (f *Fault) Error() string {
	return fmt.Sprintf("record %d of the slice (begins at byte %d of the file): byte %d of the record (byte %d of the file): %s",
		f.Row, f.Begin, f.Position(), f.Offset, f.Detail)
}
