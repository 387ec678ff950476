package chaosrun

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/actors/agent/journal"
	"weir/chaos/history"
	"weir/messages/actorpb"
	"weir/messages/journalpb"
	"weir/messages/statepb"
	"weir/scheduling"
)

func TestEntriesOfJournals(t *testing.T) {
	token := func(term, index uint64) scheduling.Token { return scheduling.Token{Term: term, Index: index} }
	start := &actorpb.StartJob{JobId: "j", OperationId: "o", Task: "t", Cookie: 3, Attempt: 2, Token: &actorpb.Token{Term: 4, Index: 7}}
	spec := &actorpb.JobSpec{JobId: "j", Argv: []string{"true"}}
	for name, test := range map[string]struct {
		record *journalpb.Record
		want   []history.Entry
	}{
		"a birth":     {&journalpb.Record{Event: &journalpb.Record_Born{Born: &journalpb.Born{Life: 1}}}, nil},
		"a new start": {&journalpb.Record{Event: &journalpb.Record_Woke{Woke: &journalpb.Woke{}}}, []history.Entry{{What: history.Woke}}},
		"a token":     {journal.Seen(token(4, 9)), []history.Entry{{What: history.Seen, Token: token(4, 9)}}},
		"a grant": {journal.Granted(start, token(4, 9)), []history.Entry{{
			What: history.Granted, Operation: "o", Task: "t", Cookie: 3, Attempt: 2, Job: "j", Token: token(4, 7), Plan: token(4, 9),
		}}},
		"a start":     {journal.Starting(spec, "b"), []history.Entry{{What: history.Starting, Job: "j"}}},
		"a process":   {journal.Started("j", 9, timestamppb.Now(), ""), []history.Entry{{What: history.Started, Job: "j"}}},
		"an end":      {journal.Exited(&statepb.FinishedJob{JobId: "j", State: "failed"}, nil), []history.Entry{{What: history.Exited, Job: "j", State: "failed"}}},
		"a release":   {journal.Released("j"), nil},
		"no start":    {journal.Unstarted("j", "k"), []history.Entry{{What: history.Unstarted, Job: "j"}, {What: history.Unstarted, Job: "k"}}},
		"a rejection": {journal.Rejected("old", token(3, 8), token(4, 9), "r1", "j"), []history.Entry{{What: history.Rejected, Job: "j", Reason: "old", From: "r1", Token: token(3, 8), Seen: token(4, 9)}}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range test.want {
				test.want[i].Node = "n1"
			}
			if got := entriesOf("n1", test.record); !slices.Equal(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
