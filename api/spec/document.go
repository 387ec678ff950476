package spec

import (
	"bytes"
	"unicode/utf8"
)

// The limits of a spec's text.
const (
	// MaxBytes is the longest spec: it is replicated and kept in memory as long
	// as its operation.
	MaxBytes = 1 << 20
	// maxDepth bounds nesting; only annotations nest at all.
	maxDepth = 32
	// maxValues bounds the values of a spec after its anchors are followed.
	maxValues = 1 << 17
)

// position is where a value stands in the text; line 0: nowhere.
type position struct{ line, column int }

// kind is the type of a value.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

// String names the kind as errors do.
func (k kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "an object"}[k]
}

// value is one value of a document.
type value struct {
	kind   kind
	at     position
	truth  bool
	number float64
	// whole is the exact number, when it is an integer of 64 bits.
	whole   int64
	isWhole bool
	text    string
	items   []*value
	fields  []field
	// set: an assignment made it, nothing was there before.
	set bool
}

// field is one entry of an object, in the order of the text.
type field struct {
	name  string
	at    position
	value *value
}

// Document is the spec of an operation as it was written: well-formed, not yet
// checked.
type Document struct {
	root *value
	// faults were found when the text was read; Check tells them with its own.
	faults []Fault
}

// Read reads a spec, one object in YAML or JSON. YAML is read with anchors, but
// without tags and merge keys. The error is an *Error: data has more than
// MaxBytes, or is not well-formed. A key that is there twice is told by Check.
func Read(data []byte) (*Document, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	doc, err := readAny(data)
	if err != nil {
		return nil, err
	}
	if doc.root.kind != object {
		return nil, faultAt(nil, doc.root.at, "it is %s: an object, names with values, is needed", doc.root.kind)
	}
	return doc, nil
}

// readAny reads JSON as JSON, because its escapes and blanks are not quite those
// of YAML, and all else as YAML. Text that begins like JSON may still be YAML,
// with a comment in it for example; if it is neither, it was meant to be JSON.
func readAny(data []byte) (*Document, error) {
	if !beginsLikeJSON(data) {
		return readYAML(data)
	}
	doc, err := readJSON(data)
	if err == nil {
		return doc, nil
	}
	if lenient, yamlErr := readYAML(data); yamlErr == nil {
		return lenient, nil
	}
	return nil, err
}

// beginsLikeJSON tells an object whose first name is in quotes, or an empty one.
func beginsLikeJSON(data []byte) bool {
	inside, ok := bytes.CutPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	inside = bytes.TrimLeft(inside, " \t\r\n")
	return ok && len(inside) > 0 && (inside[0] == '"' || inside[0] == '}')
}

// checkText refuses text that is too long or not UTF-8.
func checkText(data []byte) error {
	if len(data) > MaxBytes {
		return tooLong(len(data))
	}
	at := position{line: 1, column: 1}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return faultAt(nil, at, "byte 0x%02x is not UTF-8: save the spec as UTF-8", data[i])
		case r == '\n':
			at = position{line: at.line + 1, column: 1}
		default:
			at.column++
		}
		i += size
	}
	return nil
}

func tooLong(size int) error {
	return faultAt(nil, position{}, "it has %d bytes, %d (1 MiB) is the most: put data into files and name them in the spec", size, MaxBytes)
}

// number64 returns a number value. Integers are kept exactly.
func number64(f float64, at position) *value {
	v := &value{kind: number, at: at, number: f}
	// Beyond 2^53 floats skip integers, so which one was meant is not known.
	if whole := int64(f); f > -(1<<53) && f < 1<<53 && float64(whole) == f {
		v.whole, v.isWhole = whole, true
	}
	return v
}

// integer returns an exact number value.
func integer(i int64, at position) *value {
	return &value{kind: number, at: at, number: float64(i), whole: i, isWhole: true}
}
