package signal

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// Tell announces a word that this replica received.
type Tell = hearsay.Say[*actorpb.InstanceWord]

// Words holds the latest word of each instance that a replica has heard, by operation and job. It
// is safe to read from any goroutine; only its actor writes.
type Words struct {
	*hearsay.Known[*actorpb.InstanceWord]
}

// NewWords returns a Words for `limit` words. A word is kept as long as its job runs, as far as
// this replica knows, and for at least the duration `keep`, which is longer than the job's grant
// takes to arrive here.
func NewWords(keep time.Duration, limit int, now func() time.Time, runs func(job string) bool) *Words {
	return &Words{hearsay.NewKnown(hearsay.Subject[*actorpb.InstanceWord]{
		Topic: "readiness", Limit: limit,
		Key: (*actorpb.InstanceWord).GetJobId, Group: (*actorpb.InstanceWord).GetOperationId,
		Sign: func(w *actorpb.InstanceWord, by hearsay.Speaker, sequence uint64) {
			w.Origin, w.Incarnation, w.Sequence = by.Replica, by.Incarnation, sequence
		},
		Replaces: func(w, earlier *actorpb.InstanceWord) bool {
			if w.GetSession() != earlier.GetSession() {
				return w.GetSession() > earlier.GetSession()
			}
			return w.GetNumber() > earlier.GetNumber()
		},
		News: func(w, earlier *actorpb.InstanceWord) bool {
			return w.GetWord() != earlier.GetWord() || w.GetReason() != earlier.GetReason()
		},
		Forget: func(now time.Time, _ *actorpb.InstanceWord) time.Time { return now.Add(keep) },
		Stays:  func(w *actorpb.InstanceWord) bool { return runs(w.GetJobId()) },
		All:    func(all []*actorpb.InstanceWord) proto.Message { return &actorpb.InstanceWords{Words: all} },
		Each:   hearsay.ListIn((*actorpb.InstanceWords).GetWords),
	}, now)}
}
