package command

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
)

// Stamp sets the time of a command, and that of the stop order in it, from which a grace period
// runs. The leader stamps each command that it is given, so that the clock of no other replica
// counts. CheckpointVolumes keeps its time, which is data: the moment of the leader's volumes.
func Stamp(msg proto.Message, at time.Time) {
	switch m := msg.(type) {
	case *commandpb.CheckpointVolumes:
		return
	case *commandpb.StopJobs:
		if m.GetOrder() != nil {
			m.Order.Time = timestamppb.New(at)
		}
		return
	}
	m := msg.ProtoReflect()
	if field := m.Descriptor().Fields().ByName("time"); field != nil {
		m.Set(field, protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()))
	}
}
