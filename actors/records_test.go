package actors

import (
	"testing"

	"weir/messages/statepb"
	"weir/raftstore/state"
)

// TestHeadsTellWhoseOperationsAre: controllers learn how much memory a user's jobs need from the jobs of that
// user alone.
func TestHeadsTellWhoseOperationsAre(t *testing.T) {
	task := &statepb.TaskSpec{Name: "t", Argv: []string{"sort"}}
	keys := map[string]bool{}
	for _, user := range []string{"ann", "bob"} {
		h := head(&statepb.Operation{Id: "op", User: user, Spec: &statepb.OperationSpec{Type: "vanilla", Tasks: []*statepb.TaskSpec{task}}})
		keys[h.GetSpec().MemoryProfileKey(h.GetUser(), task)] = true
	}
	if len(keys) != 2 {
		t.Errorf("jobs of two users learn as %v", keys)
	}
}

func TestHeadsTellOfGangsAndNotOfThePast(t *testing.T) {
	gang := &statepb.Gang{Incarnation: 3, Size: 2, Completed: []*statepb.Interval{{Begin: 0, End: 1}}}
	h := head(&statepb.Operation{
		Id: "op", FinishedJobs: []*statepb.FinishedJob{{JobId: "a"}},
		Tasks: []*statepb.Task{{Name: "t", Gang: gang, Attempts: map[int32]int32{7: 1}}},
	})
	if got := h.GetTasks()[0]; got.GetGang() != gang || got.GetName() != "t" {
		t.Errorf("the scheduler is told of %v, and not of the ranks that have completed", got)
	}
	if len(h.GetFinishedJobs()) > 0 || len(h.GetTasks()[0].GetAttempts()) > 0 {
		t.Errorf("it is told of the past: %v", h)
	}
}

// TestThePastIsThatOfTheTree: a new leader learns from operations of its tree alone.
func TestThePastIsThatOfTheTree(t *testing.T) {
	op := &statepb.Operation{Id: "op", User: "ann", Trees: []*statepb.OperationTree{{Tree: "one", Pool: "p"}}, Spec: &statepb.OperationSpec{
		Type: "vanilla", Tasks: []*statepb.TaskSpec{{Name: "t", JobCount: 5, Argv: []string{"sort"}}},
	}}
	past := appendPast(appendPast(nil, state.New(), "one", op), state.New(), "other", op)
	if len(past) != 1 || past[0].ID != "op" || past[0].Pool != "p" || past[0].Jobs != 5 || past[0].Kind == "" || past[0].Ended != 0 {
		t.Errorf("learned from %+v", past)
	}
}
