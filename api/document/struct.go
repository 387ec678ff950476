package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/scheduling/option"
)

// Struct returns the document as a message of the API. The message has no lines and columns:
// to get faults with places, check the document itself. A duplicate key is an
// *option.Error, since a struct cannot hold it.
func (d *Document) Struct() (*structpb.Struct, error) {
	if err := d.Refuse(d.faults); err != nil {
		return nil, err
	}
	s, err := structpb.NewStruct(d.Root.Plain().(map[string]any))
	if err != nil {
		return nil, fmt.Errorf("send %s: %w", d.what, err)
	}
	return s, nil
}

// FromStruct returns the document that s holds. It fails, with an *option.Error, if s has more than
// MaxBytes as JSON, nests too deep, or holds a value that JSON cannot represent.
func FromStruct(what string, s *structpb.Struct) (*Document, error) {
	r := &structReader{}
	root, err := r.object(s, nil, 0)
	if err != nil {
		return nil, about(what, err)
	}
	data, err := json.Marshal(root.Plain())
	switch {
	case err != nil:
		return nil, about(what, faultAt(nil, option.Position{}, "%v", err))
	case len(data) > MaxBytes:
		return nil, about(what, tooLong(len(data)))
	}
	return &Document{Root: root, what: what}, nil
}

// structReader turns a struct into values.
type structReader struct{ reader }

func (r *structReader) object(s *structpb.Struct, path *trail, depth int) (*option.Value, error) {
	v := &option.Value{Kind: option.Object}
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		read, err := r.read(s.GetFields()[name], path.field(name), depth+1)
		if err != nil {
			return nil, err
		}
		v.Fields = append(v.Fields, option.Entry{Name: name, Value: read})
	}
	return v, nil
}

func (r *structReader) read(s *structpb.Value, path *trail, depth int) (*option.Value, error) {
	if err := r.enter(path, option.Position{}, depth); err != nil {
		return nil, err
	}
	switch k := s.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return &option.Value{Kind: option.Boolean, Truth: k.BoolValue}, nil
	case *structpb.Value_NumberValue:
		if math.IsNaN(k.NumberValue) || math.IsInf(k.NumberValue, 0) {
			return nil, faultAt(path, option.Position{}, "%v is not a finite number", k.NumberValue)
		}
		return option.Float(k.NumberValue, option.Position{}), nil
	case *structpb.Value_StringValue:
		return option.TextOf(k.StringValue), nil
	case *structpb.Value_StructValue:
		return r.object(k.StructValue, path, depth)
	case *structpb.Value_ListValue:
		v := &option.Value{Kind: option.List}
		for _, item := range k.ListValue.GetValues() {
			read, err := r.read(item, path.item(len(v.Items)), depth+1)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, read)
		}
		return v, nil
	}
	return &option.Value{}, nil
}
