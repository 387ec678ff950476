package operation

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// began is when the operations of these tests start.
var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var (
	mapSpec     = &statepb.OperationSpec{Type: "map"}
	limitedSpec = &statepb.OperationSpec{TimeLimit: durationpb.New(time.Minute)}
)

func aliveR2(string) (string, bool) { return "r2", true }

func nobodyAlive(string) (string, bool) { return "", false }

// nextCase is an operation, and what is proposed for it.
type nextCase struct {
	state       string
	spec        *statepb.OperationSpec
	replica     string
	allocations int
	published   bool
	gone        time.Time
	now         time.Time
	choose      Chooser
	want        []string
	wantAgain   time.Time
}

// checkNext compares what is proposed for each operation.
func checkNext(t *testing.T, cases map[string]nextCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			op := &statepb.Operation{Id: "op", State: test.state, Spec: test.spec, StartTime: timestamppb.New(began)}
			if test.published {
				op.Output = &statepb.Output{}
			}
			if test.replica != "" {
				op.Assignment = &statepb.Assignment{Replica: test.replica, Epoch: 7}
			}
			step := Next(test.now, View{Operation: op, Allocations: test.allocations, ControllerGone: test.gone, Term: 4}, test.choose, 2*time.Second)
			got := make([]string, 0, len(step.Propose))
			for _, msg := range step.Propose {
				got = append(got, describe(t, msg))
			}
			if len(got) != len(test.want) {
				t.Fatalf("proposed %q, want %q", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("proposal %d: %s, want %s", i, got[i], test.want[i])
				}
			}
			if !step.Again.Equal(test.wantAgain) {
				t.Errorf("look again at %s, want %s", step.Again, test.wantAgain)
			}
		})
	}
}

// TestNextReplica has operations that need a controller.
func TestNextReplica(t *testing.T) {
	checkNext(t, map[string]nextCase{
		"a new operation gets a controller in the same step": {
			state: "starting", now: began, choose: aliveR2, want: []string{"starting>waiting_for_agent", "r2@1"},
		},
		"without live replicas it waits": {
			state: "waiting_for_agent", now: began, choose: nobodyAlive,
		},
		"the first live replica takes it": {
			state: "waiting_for_agent", now: began, choose: aliveR2, want: []string{"r2@1"},
		},
		"while running there is nothing to do": {
			state: "running", replica: "r1", now: began, choose: aliveR2, allocations: 3,
		},
		"a replica that is gone for a moment keeps its operations": {
			state: "running", replica: "r1", now: began.Add(time.Second), gone: began, choose: aliveR2,
			wantAgain: began.Add(2 * time.Second),
		},
		"a replica that is gone for long loses them": {
			state: "running", replica: "r1", now: began.Add(3 * time.Second), gone: began, choose: aliveR2, want: []string{"r2@8"},
		},
		"a pending operation of a dead replica moves too": {
			state: "pending", replica: "r1", now: began.Add(3 * time.Second), gone: began, choose: aliveR2, want: []string{"r2@8"},
		},
	})
}

// TestNextAtTheTimeLimit has operations with a time limit.
func TestNextAtTheTimeLimit(t *testing.T) {
	checkNext(t, map[string]nextCase{
		"the time limit is looked at in time": {
			state: "running", replica: "r1", spec: limitedSpec, now: began, choose: aliveR2, wantAgain: began.Add(time.Minute),
		},
		"past its time limit it fails": {
			state: "running", replica: "r1", spec: limitedSpec, now: began.Add(time.Minute), choose: aliveR2, want: []string{"running>failing!"},
		},
		"an output that takes too long runs into the time limit": {
			state: "completing", spec: &statepb.OperationSpec{Type: "map", TimeLimit: durationpb.New(time.Minute)}, replica: "r1",
			now: began.Add(time.Minute), choose: aliveR2, want: []string{"completing>failing!"},
		},
		"an ended operation stays as it is, time limit too": {state: "completed", spec: limitedSpec, now: began.Add(time.Hour), choose: aliveR2},
	})
}

// TestNextOfFinishingOperations has operations that wait for their last jobs or for their output.
func TestNextOfFinishingOperations(t *testing.T) {
	checkNext(t, map[string]nextCase{
		"a finishing operation waits for its jobs": {
			state: "aborting", replica: "r1", now: began, choose: aliveR2, allocations: 1,
		},
		"a finishing operation whose replica is gone gets another for its jobs": {
			state: "aborting", replica: "r1", now: began.Add(3 * time.Second), gone: began, choose: aliveR2, allocations: 1, want: []string{"r2@8"},
		},
		"without jobs an aborting operation is aborted":     {state: "aborting", now: began, choose: aliveR2, want: []string{"aborting>aborted"}},
		"without jobs a failing operation is failed":        {state: "failing", now: began, choose: aliveR2, want: []string{"failing>failed"}},
		"without jobs a completing operation is completed":  {state: "completing", now: began, choose: aliveR2, want: []string{"completing>completed"}},
		"a map operation waits for its output":              {state: "completing", spec: mapSpec, replica: "r1", now: began, choose: aliveR2},
		"a map operation with its output is completed":      {state: "completing", spec: mapSpec, replica: "r1", published: true, now: began, choose: aliveR2, want: []string{"completing>completed"}},
		"with its output it waits for its jobs":             {state: "completing", spec: mapSpec, replica: "r1", published: true, allocations: 1, now: began, choose: aliveR2},
		"a map operation that is aborted publishes nothing": {state: "aborting", spec: mapSpec, replica: "r1", now: began, choose: aliveR2, want: []string{"aborting>aborted"}},
		"who is gone does not publish: another one does": {
			state: "completing", spec: mapSpec, replica: "r1", now: began.Add(3 * time.Second), gone: began, choose: aliveR2, want: []string{"r2@8"},
		},
	})
}

// describe writes a proposal as from>to (with ! when it carries an error) or
// replica@epoch.
func describe(t *testing.T, msg proto.Message) string {
	t.Helper()
	switch m := msg.(type) {
	case *commandpb.AdvanceOperation:
		if m.GetTerm() != 4 {
			t.Errorf("proposed in term %d, want 4", m.GetTerm())
		}
		text := m.GetFrom() + ">" + m.GetTo()
		if m.GetResult() != nil {
			text += "!"
		}
		return text
	case *commandpb.AssignController:
		a := m.GetAssignments()[0]
		return a.GetReplica() + "@" + string(rune('0'+a.GetEpoch()))
	default:
		t.Fatalf("unexpected proposal %T", msg)
		return ""
	}
}
