package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The names of the codec: connect keeps a codec for each content type.
const (
	jsonName        = "json"
	jsonCharsetName = "json; charset=utf-8"
)

// strictJSON is the JSON of the API. Fields are named as in the .proto file, fields
// with default values are written too, and an unknown field is an error that names it.
type strictJSON struct{ name string }

// Name implements connect.Codec.
func (c strictJSON) Name() string { return c.name }

// Marshal implements connect.Codec. Equal messages give equal bytes.
func (strictJSON) Marshal(message any) ([]byte, error) {
	msg, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("encode %T: not a message", message)
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(msg)
	if err != nil {
		return nil, err
	}
	// protojson adds spaces at random.
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

// Unmarshal implements connect.Codec.
func (strictJSON) Unmarshal(data []byte, message any) error {
	msg, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("decode %T: not a message", message)
	}
	name := msg.ProtoReflect().Descriptor().Name()
	if len(bytes.TrimSpace(data)) == 0 {
		return fmt.Errorf("%s: the body is empty: send at least {}", name)
	}
	if err := protojson.Unmarshal(data, msg); err != nil {
		return fmt.Errorf("%s: %w", name, plain(err))
	}
	return nil
}

// plain returns an error of protojson without its prefix. Protojson chooses one of two
// kinds of space for the prefix at random.
func plain(err error) error {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return errors.New(strings.TrimPrefix(text, "proto: "))
}
