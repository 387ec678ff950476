package command

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestEveryCommandIsStamped (T7): a new command with a time of another name would keep that of its proposer.
func TestEveryCommandIsStamped(t *testing.T) {
	at, theirs := time.Unix(1_800_000_000, 5), timestamppb.New(time.Unix(1_900_000_000, 0))
	// Commands without a time of their own.
	timeless := map[string]bool{"SetPendingReason": true, "StopJobs": true}
	for _, k := range kinds {
		if k.message == nil {
			continue
		}
		msg := k.message.ProtoReflect().New()
		name := string(msg.Descriptor().Name())
		field := msg.Descriptor().Fields().ByName("time")
		if (field == nil) != timeless[name] {
			t.Errorf("%s: has a time: %t", name, field != nil)
		}
		if field == nil {
			continue
		}
		msg.Set(field, protoreflect.ValueOfMessage(theirs.ProtoReflect()))
		Stamp(msg.Interface(), at)
		got := msg.Get(field).Message().Interface().(*timestamppb.Timestamp).AsTime()
		if kept := name == "CheckpointVolumes"; kept && !got.Equal(theirs.AsTime()) || !kept && !got.Equal(at) {
			t.Errorf("%s: time %v", name, got)
		}
	}
	stop := &commandpb.StopJobs{Order: &statepb.StopOrder{Reason: "r", Time: theirs, GraceMillis: 7}}
	Stamp(stop, at)
	if want := (&commandpb.StopJobs{Order: &statepb.StopOrder{Reason: "r", Time: timestamppb.New(at), GraceMillis: 7}}); !proto.Equal(stop, want) {
		t.Errorf("stop order: got %v, want %v", stop, want)
	}
	Stamp(&commandpb.StopJobs{}, at)
}
