package state

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
	"weir/scheduling/lifecycle"
)

// tooManyJobs is what a controller says that holds an operation back.
const tooManyJobs = "it has 6 jobs"

// materializing has an operation of 6 jobs whose controller is to define its tasks, and
// returns how.
func materializing(t *testing.T) (*journal, proto.Message) {
	j := newJournal(t)
	j.must(&commandpb.StartOperation{OperationId: "op", Spec: specOf(6)})
	road := roadOf("op", specOf(6))
	j.must(road[:4]...)
	return j, road[4]
}

func heldBack(epoch uint64, reason string) *commandpb.SetPendingReason {
	return &commandpb.SetPendingReason{OperationId: "op", Epoch: epoch, HeldBack: reason}
}

// TestOperationThatItsControllerHoldsBack lowers how many jobs an operation may have
// between its preparation and its tasks, and raises it again.
func TestOperationThatItsControllerHoldsBack(t *testing.T) {
	limits := func(term uint64, jobs int32) *commandpb.BeginTerm {
		return &commandpb.BeginTerm{Term: term, Replica: "r1", Limits: &statepb.Limits{JobsPerOperation: jobs}}
	}
	j, define := materializing(t)
	j.must(limits(2, 5))
	if result, _ := j.apply(proto.CloneOf(define)); result.GetRefusal().GetCode() != CodeTooManyJobs {
		t.Fatalf("got %v", result)
	}
	j.must(heldBack(1, tooManyJobs))
	if got := j.operation("op"); got.GetPendingReason() != tooManyJobs || got.GetState() != lifecycle.Materializing.String() {
		t.Errorf("it is %s and waits for %q", got.GetState(), got.GetPendingReason())
	}
	said := j.operation("op").GetLastIndex()
	j.state = mustRestore(t, j.state.Freeze())
	j.must(heldBack(1, tooManyJobs))
	if got := j.operation("op").GetLastIndex(); got != said {
		t.Errorf("it has changed at %d, though it was said at %d", got, said)
	}
	j.must(limits(3, 6), define)
	if got := j.operation("op"); got.GetPendingReason() != "" || got.GetHeldBack() != "" || got.GetState() != lifecycle.Running.String() {
		t.Errorf("it is %s and waits for %q", got.GetState(), got.GetPendingReason())
	}
}

func TestOperationThatIsHeldBackIsAborted(t *testing.T) {
	j, _ := materializing(t)
	j.must(heldBack(1, tooManyJobs), &commandpb.AbortOperation{OperationId: "op"})
	if got := j.operation("op"); got.GetPendingReason() != "" || got.GetHeldBack() != "" {
		t.Errorf("it is %s and waits for %q", got.GetState(), got.GetPendingReason())
	}
}

func TestWhoMayHoldAnOperationBack(t *testing.T) {
	for story, test := range map[string]struct {
		step    *commandpb.SetPendingReason
		defined bool
		want    string
	}{
		"another controller":       {heldBack(2, "x"), false, CodeStaleEpoch},
		"an operation that is not": {&commandpb.SetPendingReason{OperationId: "no", Epoch: 1}, false, CodeUnknownOperation},
		"trees besides":            {&commandpb.SetPendingReason{OperationId: "op", Epoch: 1, Reasons: map[string]string{"default": "x"}}, false, CodeInvalidCommand},
		"one that runs":            {heldBack(1, "x"), true, CodeInvalidOperationState},
	} {
		t.Run(story, func(t *testing.T) {
			j, define := materializing(t)
			if test.defined {
				j.must(define)
			}
			if result, _ := j.apply(test.step); result.GetRefusal().GetCode() != test.want {
				t.Errorf("got %v, want %s", result, test.want)
			}
		})
	}
}
