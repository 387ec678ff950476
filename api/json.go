package api

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is the JSON of the API: field names as in the API's description,
// and an unknown field is an error that names it.
type strictJSON struct{}

// Name implements connect.Codec.
func (strictJSON) Name() string { return "json" }

// Marshal implements connect.Codec.
func (strictJSON) Marshal(message any) ([]byte, error) {
	msg, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("encode %T: not a message", message)
	}
	return protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(msg)
}

// Unmarshal implements connect.Codec.
func (strictJSON) Unmarshal(data []byte, message any) error {
	msg, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("decode %T: not a message", message)
	}
	if len(data) == 0 {
		return fmt.Errorf("decode %s: the body is empty; send {} at least", msg.ProtoReflect().Descriptor().Name())
	}
	return protojson.Unmarshal(data, msg)
}
