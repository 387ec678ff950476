package state

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/messages/versions"
)

// TestNewerThanTheCluster (V2): a command with something that is newer than the version of the cluster changes
// nothing, whoever let it into the log; with the version it is applied.
func TestNewerThanTheCluster(t *testing.T) {
	defer versions.Plant(versions.Row{Name: "weir.command.v1.EditGroup.remove", Since: 2}, versions.Row{Name: "weir.command.v1.DrainNode", Since: 2})()
	j := newJournal(t)
	j.must(nodeOf("n1", 1), &commandpb.EditGroup{Group: "g", Add: []string{"ann", "bob"}})
	newer := []proto.Message{&commandpb.EditGroup{Group: "g", Remove: []string{"ann"}}, &commandpb.DrainNode{Node: "n1", User: "oda"}}
	before := recordsOf(t, j.state.Freeze())
	for _, msg := range newer {
		result, _ := j.apply(proto.Clone(msg))
		if got := result.GetRefusal(); got.GetCode() != CodeNewerVersion || !strings.Contains(got.GetMessage(), "weir cluster upgrade finish") {
			t.Errorf("%T: got %v, want it to be refused", msg, got)
		}
	}
	after := recordsOf(t, j.state.Freeze())
	after[0].GetHeader().Index = before[0].GetHeader().GetIndex()
	for i := range before {
		if !proto.Equal(before[i], after[i]) {
			t.Errorf("a refused command changed %v to %v", before[i], after[i])
		}
	}
	j.must(&commandpb.RaiseVersion{Version: 2})
	j.must(newer...)
}

// TestRaiseVersion (V2): the version only grows, by operators and the system, and is in the snapshots; a version that this
// program does not know stops it.
func TestRaiseVersion(t *testing.T) {
	j := newJournal(t)
	header := func() *statepb.SnapshotHeader { return recordsOf(t, j.state.Freeze())[0].GetHeader() }
	if h := header(); j.state.Version() != 1 || h.GetVersion() != 0 || h.GetFormat() != 2 {
		t.Errorf("before: version %d, header %v; want what programs of version 1 read", j.state.Version(), h)
	}
	by := func(user string, operator bool, version uint32) *commandpb.Refusal {
		result, _ := ApplyBy(j.state, uint64(len(j.entries))+1, &commandpb.Subject{User: user, Operator: operator}, &commandpb.RaiseVersion{Version: version, User: user})
		return result.GetRefusal()
	}
	if got := by("ann", false, 2); got.GetCode() != CodeDenied {
		t.Errorf("by a user: got %v, want it to be denied", got)
	}
	if got := by("oda", true, 2); got != nil {
		t.Fatalf("by an operator: %v", got)
	}
	if got := by("oda", true, 2); got != nil {
		t.Errorf("again: %v", got)
	}
	if got := by("oda", true, 1); got.GetCode() != CodeInvalidCommand || !strings.Contains(got.GetMessage(), "no way back") {
		t.Errorf("back: got %v", got)
	}
	if h := header(); j.state.Version() != 2 || h.GetVersion() != 2 || h.GetFormat() != 3 {
		t.Errorf("after: version %d, header %v", j.state.Version(), h)
	}
	restored, err := restore(recordsOf(t, j.state.Freeze()))
	if err != nil || restored.Version() != 2 {
		t.Errorf("restored: version %d, %v", restored.Version(), err)
	}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "needs cluster version 9") {
			t.Errorf("a version that this program does not know: %s", got)
		}
	}()
	by("oda", true, 9)
}
