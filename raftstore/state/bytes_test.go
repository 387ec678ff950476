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

// TestHistoryIsBoundedInBytes gives an operation as much of a history as its user can: reasons,
// errors and updates of the largest size.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 1000))
	spec := specOf(1000)
	spec.MaxFailedJobCount = 10000
	j.run("op", spec)
	long := strings.Repeat("x", 4<<10)
	j.must(createPool("ads", "", nil))
	for i := range 300 {
		job := fmt.Sprint("job", i)
		j.start("op", job)
		j.must(&commandpb.StopJobs{OperationId: "op", JobIds: []string{job}, Order: &statepb.StopOrder{Message: long}})
		epoch := j.operation("op").GetAssignment().GetEpoch()
		j.must(&commandpb.FinishJobs{OperationId: "op", Epoch: epoch, Jobs: []*statepb.FinishedJob{{
			JobId: job, State: "failed", Error: &statepb.Error{Message: strings.Repeat(long, 1000), Attributes: map[string]string{"stderr": long}},
		}}})
		j.must(&commandpb.UpdateOperation{OperationId: "op", User: strings.Repeat("u", 1000), Changes: []*commandpb.OperationChange{{Pool: to("ads")}, {Pool: to("default")}}})
	}
	op := j.operation("op")
	size := proto.Size(&statepb.Operation{Events: op.GetEvents(), FinishedJobs: op.GetFinishedJobs()})
	if size > 1<<20 || len(op.GetFinishedJobs()) < 100 || len(op.GetEvents()) < 50 {
		t.Errorf("%d finished jobs and %d events take %d bytes", len(op.GetFinishedJobs()), len(op.GetEvents()), size)
	}
	for _, finished := range op.GetFinishedJobs() {
		if message := finished.GetStop().GetMessage(); len(message) > maxOrderBytes || !strings.HasSuffix(message, "…") {
			t.Fatalf("the order of a job has %d bytes", len(message))
		}
	}
	j.must(&commandpb.AbortOperation{OperationId: "op", User: "ann", Reason: long})
	op = j.operation("op")
	if last := op.GetEvents()[len(op.GetEvents())-1]; last.GetAttributes()["reason"] != long || !strings.HasSuffix(op.GetResult().GetMessage(), long) {
		t.Errorf("the reason of an abort is cut: %d bytes", len(last.GetAttributes()["reason"]))
	}
}

// TestHistoryOfAnOldLogIsCut begins a term with bounds in bytes when there are records without.
func TestHistoryOfAnOldLogIsCut(t *testing.T) {
	j := newJournal(t)
	j.must(&commandpb.BeginTerm{Term: 2, Replica: "r1", ClusterId: "c1", Limits: &statepb.Limits{Operations: 10}})
	j.must(&commandpb.StartOperation{OperationId: "op", User: "ann", Spec: specOf(1)})
	j.must(&commandpb.AbortOperation{OperationId: "op", Reason: strings.Repeat("x", 1<<20)})
	j.must(&commandpb.BeginTerm{Term: 3, Replica: "r1", ClusterId: "c1", Limits: WithBytes(&statepb.Limits{Operations: 10})})
	events := j.operation("op").GetEvents()
	if size := len(events[len(events)-1].GetAttributes()["reason"]); size != 512 {
		t.Errorf("the reason has %d bytes", size)
	}
	mustRestore(t, j.state.Freeze())
}
