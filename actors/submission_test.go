package actors

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

func vanilla(id string, jobs int32) *commandpb.StartOperation {
	return &commandpb.StartOperation{OperationId: id, User: "ann", Spec: &statepb.OperationSpec{
		Type: "vanilla", MaxFailedJobCount: 10,
		Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: jobs, Shell: "work", CpuLimitHundredths: 100, MemoryLimit: 1 << 20, Memory: &statepb.MemorySpec{Profile: id}}},
	}}
}

// entriesOf returns the indexes of the log entries that an operation's record tells of, each once.
func entriesOf(op *statepb.Operation) (indexes []uint64) {
	for _, e := range op.GetEvents() {
		indexes = append(indexes, e.GetIndex())
	}
	for _, job := range op.GetFinishedJobs() {
		indexes = append(indexes, job.GetGrantIndex(), job.GetIndex())
	}
	indexes = append(indexes, op.GetLastIndex())
	slices.Sort(indexes)
	return slices.Compact(indexes)
}

// TestEntriesOfAnOperation: one log entry starts a small operation, up to where it runs, one grants its job, and one
// has the job's result, completes the operation and saves what it has learned; wherever it was submitted, and whoever controls it.
func TestEntriesOfAnOperation(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, nil)
	leader, follower := c.leader(), c.follower()
	a := startAgent(t, c, "n1")
	eventually(t, "the agent is registered", func() bool {
		record, _, _ := leader.records.Node("n1")
		return record != nil
	})
	a.used = func(int32) int64 { return 1 << 19 }
	a.finish()
	for name, by := range map[string]struct{ submitted, controlled *testReplica }{
		"all at the leader":      {leader, leader},
		"submitted elsewhere":    {follower, leader},
		"controlled elsewhere":   {leader, follower},
		"both elsewhere":         {follower, follower},
		"far from one another's": {c.replicas[2], c.replicas[1]},
	} {
		id := c.controlledBy(by.controlled, "small-"+strings.ReplaceAll(name, " ", "-"))
		if refused := by.submitted.propose(t, vanilla(id, 1)).GetRefusal(); refused != nil {
			t.Fatalf("%s: %v", name, refused)
		}
		leader.await(t, id, "completed")
		eventually(t, "its profile is saved", func() bool { return leader.operation(id).GetTasks()[0].GetMemory().GetSaved() })
		op := leader.operation(id)
		if got := entriesOf(op); len(got) != 3 || got[0] != op.GetAcceptedIndex() {
			t.Errorf("%s: it took %d entries, %v, want 3: %v", name, len(got), got, op.GetEvents())
		}
		if got := op.GetAssignment(); got.GetReplica() != by.controlled.id || got.GetEpoch() != 1 {
			t.Errorf("%s: it was assigned to %v, want to %s once", name, got, by.controlled.id)
		}
		job := op.GetFinishedJobs()[0].GetJobId()
		eventually(t, "the agent has its answer", func() (answered bool) {
			a.set(func() { _, answered = a.acks[job] })
			return answered
		})
		a.set(func() {
			if refusal := a.acks[job]; refusal != "" {
				t.Errorf("%s: the job was counted, but its agent was told %q", name, refusal)
			}
		})
	}
}

// TestFirstStepsOfOthers: what cannot be prepared from the state alone is assigned in the entry of its start, and left
// to its controller. A start that is refused has no steps.
func TestFirstStepsOfOthers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, nil)
	leader := c.leader()
	eventually(t, "the term has begun", func() bool {
		current, _ := leader.store.Leadership()
		return leader.records.Term() == current.Term
	})
	files := vanilla("files", 1)
	files.Spec.Tasks[0].Files = []*statepb.FileSpec{{Source: "/nowhere/f", Path: "f"}}
	if refused := leader.propose(t, files).GetRefusal(); refused != nil {
		t.Fatal(refused)
	}
	eventually(t, "it is prepared", func() bool { return len(leader.operation("files").GetEvents()) > 3 })
	events := leader.operation("files").GetEvents()
	for i, want := range []string{"starting", "waiting_for_agent", "initializing"} {
		if e := events[i]; e.GetState() != want || e.GetIndex() != events[0].GetIndex() {
			t.Errorf("event %d is %v, want %s in the first entry", i, e, want)
		}
	}
	if events[3].GetIndex() == events[0].GetIndex() {
		t.Errorf("it was prepared before its controller had looked at its files: %v", events)
	}

	wrong := vanilla("wrong", 0)
	if code := leader.propose(t, wrong).GetRefusal().GetCode(); code != "invalid_spec" || leader.operation("wrong") != nil {
		t.Errorf("an operation without jobs: refused with %q, record %v", code, leader.operation("wrong"))
	}
	if code := leader.propose(t, vanilla("files", 1)).GetRefusal().GetCode(); code != "duplicate_operation" {
		t.Errorf("a second operation of the same id: refused with %q", code)
	}
}

// TestLargeSubmissions: a start that fills an entry is proposed without first steps, and judged by itself.
func TestLargeSubmissions(t *testing.T) {
	t.Parallel()
	const entryBytes = 4 << 20
	leader := startCluster(t, 1, nil).leader()
	start := vanilla("large", 1)
	start.Spec.Tasks[0].Shell = strings.Repeat("x", entryBytes-200-proto.Size(start))
	if code := leader.propose(t, start).GetRefusal().GetCode(); code != "invalid_command" {
		t.Errorf("refused with %q, want the bound of a specification", code)
	}
}
