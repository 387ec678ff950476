package actors

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"weir/actors/signal"
	"weir/messages/actorpb"
)

// TestInstancesTravelInParts (T4) is a property: a reader that has any earlier version, or none, has
// all instances after as many answers as it takes, none of which is too large; others that come
// meanwhile share them.
func TestInstancesTravelInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, over bool) *actorpb.Instances {
			out := &actorpb.Instances{OperationId: "op", Over: over}
			for i := range 60 {
				if rapid.IntRange(0, 2).Draw(t, what) > 0 {
					out.Instances = append(out.Instances, &actorpb.Instance{
						JobId: fmt.Sprintf("job-%02d", i), Task: "t", Cookie: int32(i), Ready: rapid.Bool().Draw(t, "ready"),
						Reason: string(make([]byte, rapid.IntRange(0, 100).Draw(t, "bytes"))),
					})
				}
			}
			out.Version = signal.Version(out)
			return out
		}
		of := &awaited{desk: newNewsdesk()}
		reader := &actorpb.Instances{}
		if rapid.Bool().Draw(t, "known") {
			reader = of.keep(draw("before", false))
		}
		now := of.keep(draw("now", rapid.Bool().Draw(t, "over")))
		limit := rapid.IntRange(1, 3000).Draw(t, "limit")
		for answers := 0; reader.GetVersion() != now.GetVersion(); answers++ {
			told := of.changes(now, of.had(reader.GetVersion()), limit)
			if size := proto.Size(&actorpb.Instances{Instances: told.GetInstances()}) - 2*len(told.GetInstances()); len(told.GetInstances()) > 1 && size > limit {
				t.Fatalf("%d instances in an answer have %d bytes, the limit is %d", len(told.GetInstances()), size, limit)
			}
			if told.GetOver() && told.GetVersion() != now.GetVersion() {
				t.Fatal("it is over before all is told")
			}
			if again := of.changes(now, of.had(reader.GetVersion()), limit); !proto.Equal(again, told) {
				t.Fatal("another reader is told something else")
			}
			all, ok := told.After(reader)
			if !ok || answers > 200 {
				t.Fatalf("answer %d leads from %q to %q, the reader has %q", answers, told.GetSince(), told.GetVersion(), reader.GetVersion())
			}
			reader = all
		}
		if !proto.Equal(reader, now) {
			t.Fatalf("the reader has %v, there are %v", reader, now)
		}
	})
}
