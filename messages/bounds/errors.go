package bounds

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"weir/messages/statepb"
)

const (
	// Error bounds the error of a job.
	Error = 4 << 10
	// Result bounds the error of an operation, which has a job's error inside.
	Result = 16 << 10
	// maxAttributeBytes bounds an attribute of an error or of an event that is cut.
	maxAttributeBytes = 512
	// minErrorBytes is how much room an inner error needs to be worth keeping.
	minErrorBytes = 64
)

// CutError returns an error of at most limit bytes: the error itself, or a copy with the beginnings
// of its texts. Half of the bytes are for its message, and what that leaves for its attributes, and
// then for the errors inside.
func CutError(why *statepb.Error, limit int) *statepb.Error {
	if why == nil || proto.Size(why) <= limit {
		return why
	}
	cut := &statepb.Error{Code: why.GetCode(), Message: Cut(why.GetMessage(), limit/2)}
	cut.Attributes = CutAttributes(why.GetAttributes(), (limit-proto.Size(cut))/2)
	for _, inner := range why.GetInner() {
		// The length of an inner error takes a few bytes too.
		left := limit - proto.Size(cut) - 8
		if left < minErrorBytes {
			break
		}
		cut.Inner = append(cut.Inner, CutError(inner, left))
	}
	return cut
}

// CutAttributes returns attributes that take at most limit bytes: those that come first by name,
// with the beginnings of their values.
func CutAttributes(attributes map[string]string, limit int) map[string]string {
	size := 0
	var cut map[string]string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := Cut(attributes[name], maxAttributeBytes)
		if size += AttributeSize(name, value); size > limit {
			break
		}
		if cut == nil {
			cut = make(map[string]string)
		}
		cut[name] = value
	}
	return cut
}

// AttributeSize returns about what an attribute takes in a record, and not less.
func AttributeSize(name, value string) int { return len(name) + len(value) + 12 }
