package state

import (
	"strings"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestOwnersHaveARole (T1): a user does not own what an operator of the same name started; gateways can
// speak for users of any name. Operations of old belong to the name.
func TestOwnersHaveARole(t *testing.T) {
	for name, test := range map[string]struct {
		start *commandpb.StartOperation
		by    *commandpb.Subject
		want  string
	}{
		"the user who started it":        {&commandpb.StartOperation{User: "oda"}, &commandpb.Subject{User: "oda"}, ""},
		"a user with an operator's name": {&commandpb.StartOperation{User: "oda", ByOperator: true}, &commandpb.Subject{User: "oda", Groups: []string{"web"}}, CodeDenied},
		"the operator":                   {&commandpb.StartOperation{User: "oda", ByOperator: true}, &commandpb.Subject{User: "oda", Operator: true}, ""},
	} {
		j := newJournal(t)
		test.start.OperationId, test.start.Spec = "op", specOf(1)
		j.must(test.start)
		restored := mustRestore(t, j.state.Freeze())
		result, _ := ApplyBy(restored, restored.LastIndex()+1, test.by, &commandpb.AbortOperation{OperationId: "op", User: "oda"})
		if got := result.GetRefusal(); got.GetCode() != test.want {
			t.Errorf("%s: %q %s, want %q", name, got.GetCode(), got.GetMessage(), test.want)
		}
		op, _ := restored.Operation("op")
		if read := RightsIn(restored).Gives(RightsIn(restored).Who(test.by), "read", op); read != (test.want != CodeDenied) && test.want != "" {
			t.Errorf("%s: may read: %t", name, read)
		}
	}
}

// TestMutationsHaveARole (T1): what a user has started with a mutation id is not given to an operator of the same
// name in place of what the operator starts, nor the other way round.
func TestMutationsHaveARole(t *testing.T) {
	j := newJournal(t)
	started := func(id string, byOperator bool) string {
		t.Helper()
		start := &commandpb.StartOperation{OperationId: id, User: "oda", ByOperator: byOperator, MutationId: "nightly", Spec: specOf(1)}
		result, _ := j.apply(start)
		if r := result.GetRefusal(); r != nil {
			t.Fatalf("%s: %v", id, r)
		}
		return result.GetStartOperation().GetOperationId()
	}
	for range 2 {
		if by, of := started("of a user", false), started("of an operator", true); by != "of a user" || of != "of an operator" {
			t.Errorf("the user has started %q, the operator %q", by, of)
		}
		j.state = mustRestore(t, j.state.Freeze())
	}
}

// TestNamesOfGroupsAreNotInherited (T1): the rights that operations give to a group are not those of a
// later group of the same name, unless an operator accepts it.
func TestNamesOfGroupsAreNotInherited(t *testing.T) {
	j := company(t)
	spec := specOf(1)
	spec.Pool, spec.Acl = "ads", &statepb.OperationRights{Manage: []string{"group:helpers"}}
	j.must(&commandpb.EditGroup{Group: "helpers", Add: []string{"eve"}, UnlessInOperations: true},
		&commandpb.StartOperation{OperationId: "shared", User: "ann", Spec: spec})
	remove := &commandpb.EditGroup{Group: "helpers", Delete: true, UnlessInOperations: true}
	again := &commandpb.EditGroup{Group: "helpers", Add: []string{"mallory"}, UnlessInOperations: true}
	refused := func(m *commandpb.EditGroup) {
		t.Helper()
		result, _ := j.apply(m)
		if r := result.GetRefusal(); r.GetCode() != CodeGroupInUse || !strings.Contains(r.GetMessage(), "the acl of 1 operations names it, first shared") {
			t.Errorf("%v: %q %s", m, r.GetCode(), r.GetMessage())
		}
	}
	refused(remove)
	// The operation has ended, and its output can still be read.
	j.must(&commandpb.AbortOperation{OperationId: "shared"})
	refused(remove)
	j.must(&commandpb.EditGroup{Group: "helpers", Delete: true})
	refused(again)
	j.must(&commandpb.EditGroup{Group: "others", UnlessInOperations: true}, &commandpb.EditGroup{Group: "others", Delete: true, UnlessInOperations: true})
	again.UnlessInOperations = false
	j.must(again)
}
