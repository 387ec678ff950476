package state

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestPace is what the leader of the term has said last, also in a state that is restored.
func TestPace(t *testing.T) {
	pace := func(heartbeat, lease int64) *statepb.Pace {
		return &statepb.Pace{HeartbeatMillis: heartbeat, LeaseMillis: lease}
	}
	j := newJournal(t)
	term := j.state.Term().GetTerm()
	if result, _ := j.apply(&commandpb.SetPace{Term: term, Pace: pace(1000, 5000)}); result.GetRefusal().GetCode() != CodeNewerVersion {
		t.Errorf("at version %d of the cluster: %v, want it to be refused", j.state.Version(), result)
	}
	j.must(&commandpb.RaiseVersion{Version: 2})
	if got := PaceOf(j.state); got != nil {
		t.Errorf("before any: %v", got)
	}
	j.must(&commandpb.SetPace{Term: term, Pace: pace(2000, 10000)})
	for story, test := range map[string]struct {
		command *commandpb.SetPace
		want    string
	}{
		"a leader of another term":         {&commandpb.SetPace{Term: term + 1, Pace: pace(1000, 5000)}, CodeStaleTerm},
		"no pace":                          {&commandpb.SetPace{Term: term}, CodeInvalidCommand},
		"no period":                        {&commandpb.SetPace{Term: term, Pace: pace(0, 5000)}, CodeInvalidCommand},
		"a lease that is not longer":       {&commandpb.SetPace{Term: term, Pace: pace(5000, 5000)}, CodeInvalidCommand},
		"a period that nothing allows for": {&commandpb.SetPace{Term: term, Pace: pace(-1, 0)}, CodeInvalidCommand},
	} {
		if result, _ := j.apply(test.command); result.GetRefusal().GetCode() != test.want {
			t.Errorf("%s: %v, want %s", story, result, test.want)
		}
	}
	restored, err := restore(recordsOf(t, j.state.Freeze()))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*State{j.state, restored} {
		if got := PaceOf(s); !proto.Equal(got, pace(2000, 10000)) {
			t.Errorf("pace %v, want 2 s and 10 s", got)
		}
	}
}
