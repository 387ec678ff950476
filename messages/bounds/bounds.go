// Package bounds says how many bytes the values that people and agents make may have.
//
// There is one table, by the names of fields. The API checks each request with it, and the state
// machine each command, so that no way into the replicated state is without a bound. Package spec
// bounds the options of a specification one by one; here the specification has a bound as a whole.
//
// The package is pure: no clock, no locks, no I/O.
package bounds

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The bounds in bytes.
const (
	// Reason bounds why somebody ends something. DrainReason is lower, because every list of nodes
	// has it.
	Reason      = 4 << 10
	DrainReason = 1 << 10
	// Message bounds a text that is made of a reason and of who gave it.
	Message = Reason + Name + 256
	Title   = 256
	Alias   = 100
	// MutationID bounds what a client chooses to repeat a start.
	MutationID = 128
	// Name bounds whatever names something: pools, trees, nodes, operations, users, states. Many
	// have lower bounds of their own where they are made.
	Name = 1 << 10
	// Path bounds the path of an attribute, and what is searched for.
	Path        = 4 << 10
	Annotations = 10 << 10
	// Command bounds a command that is run in a job, ExecInput a piece of its input.
	Command   = 16 << 10
	ExecInput = 32 << 10
	// Options bounds the options of a pool, of a tree or of an operation that one call sets.
	Options = 64 << 10
	// Spec bounds a specification as it is kept.
	Spec = 1 << 20
	// Tags bounds the tags of a node together.
	Tags = 16 << 10
	// Secret bounds one secret of an operation, SecretName its name, Secrets all of one operation with
	// their names.
	Secret     = 16 << 10
	SecretName = 128
	Secrets    = 64 << 10
)

// MaxSecrets is how many secrets an operation may have.
const MaxSecrets = 64

// byName has the bound of each field that is not a name. A string that is not here has the bound
// Name. The parts of a list of strings are bounded one by one, except those of a total; objects and
// maps are bounded as a whole.
var byName = map[protoreflect.Name]int{
	"reason":           Reason,
	"message":          Message,
	"caveat":           Message,
	"title":            Title,
	"alias":            Alias,
	"mutation_id":      MutationID,
	"path":             Path,
	"filter":           Path,
	"annotations_json": Annotations,
	"options":          Options,
	"tree_options":     Options,
	"effective":        Options,
	"values":           Options,
	"spec":             Spec,
	"tags":             Tags,
}

// byField has the exceptions.
var byField = map[protoreflect.FullName]int{
	"weir.api.v1.DrainNodeRequest.reason": DrainReason,
	"weir.command.v1.DrainNode.reason":    DrainReason,
	// The text of a specification is bounded where it is read; as an object it is larger.
	"weir.api.v1.StartRequest.spec": 2 * Spec,
	// The command is bounded as a whole where it is run.
	"weir.api.v1.ExecJobRequest.command": Command,
	"weir.api.v1.ExecIORequest.input":    ExecInput,
}

// totals are the lists that are bounded as a whole.
var totals = map[protoreflect.Name]bool{"tags": true}

// Of returns the bound of a field in bytes. Fields of numbers have none: 0. A message that is not
// in the table is bounded by its fields, and has none itself.
func Of(field protoreflect.FieldDescriptor) int {
	if limit, ok := byField[field.FullName()]; ok {
		return limit
	}
	isText := field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.BytesKind
	if limit, ok := byName[field.Name()]; ok && (isText || field.Message() != nil) {
		return limit
	}
	if isText {
		return Name
	}
	return 0
}

// Check returns an error that names the first field of msg that is over its bound, with its size
// and the bound; nil if there is none.
func Check(msg proto.Message) error { return check(msg.ProtoReflect()) }

// check looks at the fields in the order of their declaration, so that equal messages give equal
// errors.
func check(m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); m.Has(field) {
			if err := checkField(field, m.Get(field)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkField(field protoreflect.FieldDescriptor, value protoreflect.Value) error {
	limit := Of(field)
	switch {
	case field.IsMap():
		return over(field, mapSize(field, value.Map()), cmp.Or(limit, Options))
	case field.IsList() && field.Message() == nil && limit > 0:
		return checkTexts(field, value.List(), limit)
	case field.IsList() && field.Message() != nil:
		for i := range value.List().Len() {
			if err := check(value.List().Get(i).Message()); err != nil {
				return err
			}
		}
		return nil
	case field.Message() != nil && limit > 0:
		if err := over(field, proto.Size(value.Message().Interface()), limit); err != nil {
			return err
		}
		return checkHead(value.Message())
	case field.Message() != nil:
		return check(value.Message())
	case limit > 0:
		return over(field, textSize(field, value), limit)
	}
	return nil
}

// checkHead checks the texts of a message that is bounded as a whole, if they have a bound of their
// own in the table, such as the title of a specification.
func checkHead(m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		limit, ok := byName[field.Name()]
		if !ok || field.Kind() != protoreflect.StringKind || field.IsList() {
			continue
		}
		if err := over(field, len(m.Get(field).String()), limit); err != nil {
			return err
		}
	}
	return nil
}

func checkTexts(field protoreflect.FieldDescriptor, list protoreflect.List, limit int) error {
	total := 0
	for i := range list.Len() {
		size := textSize(field, list.Get(i))
		if total += size; !totals[field.Name()] {
			total = size
		}
		if err := over(field, total, limit); err != nil {
			return err
		}
	}
	return nil
}

func mapSize(field protoreflect.FieldDescriptor, values protoreflect.Map) (size int) {
	values.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		size += len(key.String())
		switch of := field.MapValue(); {
		case of.Message() != nil:
			size += proto.Size(value.Message().Interface())
		default:
			size += textSize(of, value)
		}
		return true
	})
	return size
}

// textSize returns the bytes of a text; 8 of anything else.
func textSize(field protoreflect.FieldDescriptor, value protoreflect.Value) int {
	switch field.Kind() {
	case protoreflect.StringKind:
		return len(value.String())
	case protoreflect.BytesKind:
		return len(value.Bytes())
	}
	return 8
}

func over(field protoreflect.FieldDescriptor, size, limit int) error {
	if size <= limit {
		return nil
	}
	unit := ""
	if limit >= 1<<10 {
		unit = " (" + Text(int64(limit)) + ")"
	}
	return fmt.Errorf("%s has %d bytes, the limit is %d%s", field.Name(), size, limit, unit)
}

// Text formats a number of bytes for people: 4 KiB, 256 MiB, 1.5 GiB, 100 bytes.
func Text(bytes int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.size {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/float64(unit.size)), ".0") + " " + unit.name
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// Cut returns a text of at most limit bytes: text, or its beginning with a mark at its end.
func Cut(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, limit-len(mark))], "") + mark
}
