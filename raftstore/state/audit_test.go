package state

import (
	"strings"
	"testing"
)

func TestVerifyOperationNamesWhatDoesNotAddUp(t *testing.T) {
	j := newJournal(t)
	j.must(nodeOf("n1", 4))
	j.run("op", specOf(3))
	if err := j.state.VerifyOperation("op"); err != nil {
		t.Fatal(err)
	}
	if err := j.state.VerifyOperation("none"); err != nil {
		t.Errorf("an operation that is not kept: %v", err)
	}
	j.state.operations["op"].record.GetTasks()[0].Counters.Completed++
	if err := j.state.VerifyOperation("op"); err == nil || !strings.Contains(err.Error(), `operation "op"`) {
		t.Errorf("a job that is counted twice: got %v", err)
	}
}
