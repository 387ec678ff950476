package state

import (
	"strings"
	"testing"

	"weir/messages/commandpb"
	"weir/messages/statepb"
)

// TestEndsCarryTheTokenOfTheirGrant ends jobs with tokens: only that of the grant, or
// none, is taken, and the record of the end always has that of the grant.
func TestEndsCarryTheTokenOfTheirGrant(t *testing.T) {
	type token struct{ term, index uint64 }
	for name, test := range map[string]struct {
		token       func(granted token) token
		wantRefusal bool
	}{
		"the grant's":             {token: func(granted token) token { return granted }},
		"none":                    {token: func(token) token { return token{} }},
		"of an earlier grant":     {func(granted token) token { return token{granted.term, granted.index - 1} }, true},
		"of a leader's to come":   {func(granted token) token { return token{granted.term + 1, granted.index} }, true},
		"of no term":              {func(granted token) token { return token{0, granted.index} }, true},
		"of a term and no index":  {func(granted token) token { return token{granted.term, 0} }, true},
		"of an attempt hereafter": {func(granted token) token { return token{granted.term, granted.index + 1} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := busy(t)
			j.run("op", specOf(1))
			j.start("op", "job")
			a, _ := j.state.Allocation("job")
			granted := token{a.GetGrantTerm(), a.GetGrantIndex()}
			said := test.token(granted)
			result, _ := j.apply(&commandpb.FinishJobs{OperationId: "op", Epoch: 1, Jobs: []*statepb.FinishedJob{
				{JobId: "job", State: "completed", GrantTerm: said.term, GrantIndex: said.index},
			}})
			answer := result.GetFinishJobs().GetJobs()[0]
			if test.wantRefusal {
				if answer.GetRefusal() != CodeStaleToken || !strings.Contains(answer.GetMessage(), "granted with") {
					t.Errorf("got %v, want %s", answer, CodeStaleToken)
				}
				if _, runs := j.state.Allocation("job"); !runs {
					t.Error("the job was ended")
				}
				return
			}
			ended := j.operation("op").GetFinishedJobs()
			if answer.GetRefusal() != "" || len(ended) != 1 {
				t.Fatalf("got %v and %v", answer, ended)
			}
			if got := (token{ended[0].GetGrantTerm(), ended[0].GetGrantIndex()}); got != granted {
				t.Errorf("the end has token %v, the grant %v", got, granted)
			}
		})
	}
}
