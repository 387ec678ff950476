package document

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/scheduling/option"
)

// The limits of a document.
const (
	// MaxBytes bounds the text: specs are replicated and stay in memory as long as their
	// operations.
	MaxBytes = 1 << 20
	// maxDepth bounds nesting.
	maxDepth = 32
	// maxValues bounds the number of values of a document, with aliases expanded.
	maxValues = 1 << 17
)

// Document is an object as it was written: well-formed, not yet checked.
type Document struct {
	// Root is the object.
	Root *option.Value
	// what names the kind of document in errors, such as "operation spec".
	what string
	// faults were found while parsing the text; a Reading starts with them.
	faults []option.Fault
}

// Read parses one object in YAML or JSON. YAML may have anchors, but no tags and no merge keys.
// The parameter what names the kind of document in errors. Read fails, with an
// *option.Error, if data has more than MaxBytes or is not well-formed. A duplicate key is not an
// error here, but a fault in Reading.
func Read(what string, data []byte) (*Document, error) {
	if err := checkText(data); err != nil {
		return nil, about(what, err)
	}
	doc, err := readAny(data)
	if err != nil {
		return nil, about(what, err)
	}
	if doc.Root.Kind != option.Object {
		return nil, about(what, faultAt(nil, doc.Root.At, "it is %s, but must be an object (names with values)", doc.Root))
	}
	doc.what = what
	return doc, nil
}

// about names the document in an error.
func about(what string, err error) error {
	var refused *option.Error
	if errors.As(err, &refused) {
		refused.What = what
	}
	return err
}

// Reading returns a reading of the document into structs. It starts with the faults of the
// text.
func (d *Document) Reading() *option.Reading {
	return &option.Reading{Separator: ".", Faults: slices.Clone(d.faults)}
}

// Refuse returns the faults as an *option.Error about this document; nil if there are none.
func (d *Document) Refuse(faults []option.Fault) error { return option.Refuse(d.what, faults) }

// readAny reads text in JSON or YAML. It reads JSON with a JSON parser, because the escapes and
// white space of YAML differ slightly. Text that begins like JSON may still be YAML, for example if
// it has a comment. If such text is neither, readAny returns the error of the JSON parser.
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

// beginsLikeJSON reports whether text begins with an empty object, or one whose first name
// is in quotes.
func beginsLikeJSON(data []byte) bool {
	inside, ok := bytes.CutPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	inside = bytes.TrimLeft(inside, " \t\r\n")
	return ok && len(inside) > 0 && (inside[0] == '"' || inside[0] == '}')
}

// checkText returns an error for text that is too long or not UTF-8.
func checkText(data []byte) error {
	if len(data) > MaxBytes {
		return tooLong(len(data))
	}
	at := option.Position{Line: 1, Column: 1}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return faultAt(nil, at, "byte 0x%02x is not UTF-8: save it as UTF-8", data[i])
		case r == '\n':
			at = option.Position{Line: at.Line + 1, Column: 1}
		default:
			at.Column++
		}
		i += size
	}
	return nil
}

func tooLong(size int) error {
	return faultAt(nil, option.Position{}, "it has %d bytes, the limit is %d (1 MiB): put data into files, and name them here", size, MaxBytes)
}

// reader reads one document, within the limits.
type reader struct {
	count  int
	faults []option.Fault
}

// enter counts a value, and returns an error if it exceeds a limit.
func (r *reader) enter(path *trail, at option.Position, depth int) error {
	if depth > maxDepth {
		return faultAt(path, at, "values nest more than %d deep", maxDepth)
	}
	if r.count++; r.count > maxValues {
		return faultAt(path, at, "there are more than %d values", maxValues)
	}
	return nil
}

// field adds a field to an object. A second field of the same name becomes a fault.
func (r *reader) field(v *option.Value, path *trail, f option.Entry, seen map[string]option.Position) {
	if first, twice := seen[f.Name]; twice {
		r.faults = append(r.faults, option.Fault{
			Path: path.String(), Position: f.At, Problem: fmt.Sprintf("duplicate name, first in line %d: keep one", first.Line),
		})
		return
	}
	seen[f.Name] = f.At
	v.Fields = append(v.Fields, f)
}

// faultAt returns a fault as an error that ends the reading.
func faultAt(path *trail, at option.Position, format string, args ...any) error {
	return option.NewError([]option.Fault{{Path: path.String(), Position: at, Problem: fmt.Sprintf(format, args...)}})
}

// trail is the path from the root to a value, nil for the root. It is formatted only when a
// fault needs it.
type trail struct {
	up   *trail
	name string
	// index is the index of an item of a list, -1 for a field.
	index int
}

func (t *trail) field(name string) *trail { return &trail{up: t, name: name, index: -1} }

func (t *trail) item(index int) *trail { return &trail{up: t, index: index} }

// String returns the path as faults show it.
func (t *trail) String() string {
	switch {
	case t == nil:
		return ""
	case t.index >= 0:
		return fmt.Sprintf("%s[%d]", t.up, t.index)
	}
	return strings.TrimPrefix(t.up.String()+"."+option.Clip(t.name), ".")
}
