package remote_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"weir/actors/remote"
)

// strange returns a message of a type that no registry knows.
func strange(t testing.TB) proto.Message {
	t.Helper()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:        proto.String("strange.proto"),
		Package:     proto.String("strange"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Thing")}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessage(file.Messages().ByName("Thing"))
}

// checkError wants err to be of the kind of want and to say wantText.
func checkError(t testing.TB, err, want error, wantText string) {
	t.Helper()
	matches := errors.Is(err, want)
	if _, ok := errors.AsType[*remote.ErrRefused](want); ok {
		_, matches = errors.AsType[*remote.ErrRefused](err)
	}
	if !matches || !strings.Contains(err.Error(), wantText) {
		t.Errorf("error %v, want %v that says %q", err, want, wantText)
	}
}
