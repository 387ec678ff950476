package figures

import (
	"testing"

	"weir/messages/apipb"
)

const (
	nightly = "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4b"
	other   = "01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4a"
)

var named = IDs{Names: map[string]*apipb.OperationName{
	nightly: {Id: nightly, Title: "sort by\x1b[31m key", Alias: "*nightly", User: "ann", Pool: "ads"},
	other:   {Id: other, User: "bob", Pool: "default"},
}}

func TestOperationsHaveNames(t *testing.T) {
	for text, want := range map[string]string{
		"operation " + nightly + " waits for operation " + other + ": " + nightly + " is first": `operation 5f1d2e4b "*nightly sort by�[31m key" of ann in pool ads` +
			` waits for operation 5f1d2e4a of bob in pool default: 5f1d2e4b is first`,
		"operation " + other + " of pool research":    "operation 5f1d2e4a of bob of pool research",
		"job (operation " + other + `, pool default)`: "job (operation 5f1d2e4a of bob, pool default)",
		"job 01902e5c-0f7e-7c1e-b6a1-3d9c5f1d2e4c":    "job 5f1d2e4c",
		"no id: " + nightly + "0 and deadbeef":        "no id: " + nightly + "0 and deadbeef",
	} {
		if got := named.In(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := named.Whole(other); got != other+" of bob in pool default" {
		t.Errorf("the whole id: %q", got)
	}
	full := IDs{Full: true, Names: named.Names}
	if got := full.Operation(other); got != other+" of bob in pool default" {
		t.Errorf("wide: %q", got)
	}
	found := IDsIn(&apipb.Job{Id: "j1", OperationId: other, Interruption: &apipb.Interruption{Message: "for " + nightly, PreemptedForOperation: nightly}})
	if len(found) != 2 || found[0] != other || found[1] != nightly {
		t.Errorf("ids in a job: %q", found)
	}
}

func TestPainted(t *testing.T) {
	for state, want := range map[string]string{
		"failed: exit code 3": red, "online, draining": yellow, "running": green, "running (suspended)": yellow, "aborted: preemption": yellow,
		"drained, offline (!)": red, "live, not ready": red, "live, ready": green, "completed": "", "normal": "", "below fair share": yellow,
	} {
		got := Painted(state)
		if Plain(got) != state || got != state && got != want+state+plain || (got == state) != (want == "") {
			t.Errorf("%q is painted as %q", state, got)
		}
	}
}
