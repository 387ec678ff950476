package command

import "google.golang.org/protobuf/reflect/protoreflect"

// byMessage finds a kind by the full name of its message.
var byMessage = func() map[protoreflect.FullName]Kind {
	names := make(map[protoreflect.FullName]Kind, len(kinds))
	for _, k := range kinds {
		if k.make == nil {
			continue
		}
		names[k.make().ProtoReflect().Descriptor().FullName()] = k.kind
	}
	return names
}()
