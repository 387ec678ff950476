package spec

import (
	"fmt"
	"strings"
)

// Syntax is how a spec is written.
type Syntax int

// The syntaxes.
const (
	// YAML is read with anchors, but without tags and merge keys.
	YAML Syntax = iota
	// JSON is RFC 8259, one object.
	JSON
)

// SyntaxOf returns the syntax of a file by its name: JSON for .json, YAML for
// all others.
func SyntaxOf(name string) Syntax {
	if strings.HasSuffix(strings.ToLower(name), ".json") {
		return JSON
	}
	return YAML
}

// The limits of a spec's text.
const (
	// MaxBytes is the longest spec: it is replicated and kept in memory as long
	// as its operation.
	MaxBytes = 1 << 20
	// maxDepth bounds nesting; only annotations nest at all.
	maxDepth = 32
	// maxValues bounds the values of a spec after its anchors are followed.
	maxValues = 1 << 19
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
}

// field is one entry of an object, in the order of the text.
type field struct {
	name  string
	at    position
	value *value
}

// field returns the entry of an object by its name.
func (v *value) field(name string) *value {
	for _, f := range v.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// Document is the spec of an operation as it was written: well-formed, not yet
// checked.
type Document struct {
	root *value
}

// Read reads a spec. It returns an error unless data is one object without
// duplicate keys, of at most MaxBytes.
func Read(data []byte, syntax Syntax) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("read spec: it has %d bytes, %d (1 MiB) is the most: put data into files and name them in the spec", len(data), MaxBytes)
	}
	var root *value
	var err error
	switch syntax {
	case YAML:
		root, err = readYAML(data)
	case JSON:
		root, err = readJSON(data)
	default:
		err = fmt.Errorf("syntax %d is not known", syntax)
	}
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	if root.kind != object {
		return nil, fmt.Errorf("read spec: it is %s: an object with tasks is needed", root.kind)
	}
	return &Document{root: root}, nil
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
