package signal

import (
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// Tell announces a word that was told to this replica.
type Tell = hearsay.Say[*actorpb.InstanceWord]

// Words is what a replica has heard of instances: the latest word of each, by operation and job.
// It may be read from anywhere; its actor alone writes.
type Words struct {
	*hearsay.Known[*actorpb.InstanceWord]
}

// NewWords returns a place for so many words. One stays as long as its job runs, as far as is
// known here, and for keep: longer than its grant takes to be known here.
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
		Each: func(all []byte) ([]*actorpb.InstanceWord, error) {
			var words actorpb.InstanceWords
			err := proto.Unmarshal(all, &words)
			return words.GetWords(), err
		},
	}, now)}
}
