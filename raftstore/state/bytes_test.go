package state

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/bounds/boundstest"
	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestTextsOfCommandsAreBounded fills in every text of every command that carries what users and
// agents make: each is refused by the name of its field, and leaves the state as it was.
func TestTextsOfCommandsAreBounded(t *testing.T) {
	// These are made by replicas, of what is bounded where it comes in.
	byReplicas := map[string]bool{}
	for _, msg := range []proto.Message{
		&commandpb.BeginTerm{}, &commandpb.AdvanceOperation{}, &commandpb.SetPendingReason{}, &commandpb.AssignController{},
		&commandpb.PrepareOperation{}, &commandpb.DefineTasks{}, &commandpb.PublishOutput{}, &commandpb.StartAllocations{},
		&commandpb.FinishJobs{}, &commandpb.AbortAllocations{}, &commandpb.PreemptAllocations{}, &commandpb.HandOver{},
		&commandpb.SetNodeOffline{}, &commandpb.UpdateReserves{}, &commandpb.SaveMemoryProfiles{}, &commandpb.CheckpointVolumes{},
		&commandpb.AdmitOperation{},
	} {
		byReplicas[fmt.Sprintf("%T", msg)] = true
	}
	j := newJournal(t)
	before := contentOf(t, j.state)
	for of, h := range handlers {
		if h.bounded == byReplicas[of.String()] {
			t.Errorf("%s: bounded %t: is it made by replicas?", of, h.bounded)
		}
		if !h.bounded {
			continue
		}
		empty := reflect.New(of.Elem()).Interface().(proto.Message)
		boundstest.Oversized(empty, func(path string, msg proto.Message) {
			if m, ok := msg.(*commandpb.RegisterNode); ok {
				m.Term = 1
			}
			result, _ := j.state.Apply(1, msg)
			// The field, or what it is in and is bounded as a whole.
			said := result.GetRefusal().GetMessage()
			named := slices.ContainsFunc(strings.Split(path, "."), func(field string) bool { return strings.Contains(said, ": "+field+" has ") })
			if !named || len(said) > 1000 {
				t.Errorf("%T with a large %s: %.200q", msg, path, said)
			}
		})
	}
	if string(contentOf(t, j.state)) != string(before) {
		t.Error("refused commands have changed the state")
	}
}

// TestTextsOfOldLogsAreNotBounded applies a command of a log that began before texts were bounded.
func TestTextsOfOldLogsAreNotBounded(t *testing.T) {
	j := newJournal(t)
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{Operations: 10}})
	j.must(&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: specOf(1)})
	abort := &commandpb.AbortOperation{OperationId: "op", Reason: strings.Repeat("x", 1<<20)}
	j.must(abort)
	j.must(&commandpb.StartOperation{OperationId: "other", User: "ann", Spec: specOf(1)})
	j.must(&commandpb.BeginTerm{Term: 3, Replica: "r1", ClusterId: "c1", Limits: WithBytes(&statepb.Limits{Operations: 10})})
	result, _ := j.apply(&commandpb.AbortOperation{OperationId: "other", Reason: strings.Repeat("x", 1<<20)})
	if got := result.GetRefusal().GetMessage(); got != "abort operation: reason has 1048576 bytes, the limit is 4096 (4 KiB)" {
		t.Errorf("refused with %q", got)
	}
}
