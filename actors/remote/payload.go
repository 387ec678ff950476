package remote

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// encode encodes a message for a peer that accepts up to limit bytes.
func encode(message any, limit int) (*anypb.Any, error) {
	m, ok := message.(proto.Message)
	if !ok || isLifeCycle(m.ProtoReflect().Descriptor()) {
		return nil, fmt.Errorf("%w: cannot send a %T to another machine: it is not a protobuf message of the application", ErrMalformed, message)
	}
	payload := new(anypb.Any)
	if err := anypb.MarshalFrom(payload, m, proto.MarshalOptions{}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if size := len(payload.GetValue()); size > limit {
		return nil, fmt.Errorf("%w: %s of %d bytes, but the receiver accepts at most %d (MaxMessageBytes)", ErrTooLarge, payload.MessageName(), size, limit)
	}
	return payload, nil
}

// decode decodes a message from a peer, of up to limit bytes.
func decode(payload *anypb.Any, limit int) (proto.Message, error) {
	if size := len(payload.GetValue()); size > limit {
		return nil, fmt.Errorf("%w: %s of %d bytes, but this side accepts at most %d (MaxMessageBytes)", ErrTooLarge, payload.MessageName(), size, limit)
	}
	m, err := payload.UnmarshalNew()
	switch {
	case errors.Is(err, protoregistry.NotFound):
		return nil, fmt.Errorf("%w: %q: upgrade the receiver", ErrUnknownType, payload.GetTypeUrl())
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrMalformed, payload.MessageName(), err)
	case isLifeCycle(m.ProtoReflect().Descriptor()):
		// As a reply, such a message would reach an actor outside an Inbound, and might stop the actor.
		return nil, fmt.Errorf("%w: %s may not come from another machine", ErrMalformed, payload.MessageName())
	}
	return m, nil
}

// isLifeCycle reports whether a message is one of protoactor's own, which control actors.
func isLifeCycle(d protoreflect.MessageDescriptor) bool {
	return d.ParentFile().Package() == "actor"
}
