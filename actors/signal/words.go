package signal

import (
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/actors/hearsay"
	"weir/messages/actorpb"
)

// WordTopic is under what the words of instances are gossiped.
const WordTopic = "readiness"

// WordTable holds the latest word of each instance, by job.
type WordTable struct {
	// keep is how long a word stays of a job that is not known to run: longer than its grant
	// takes to be known here.
	keep time.Duration
	// limit bounds the words: of more instances those are forgotten that were heard of first.
	limit int
	words map[string]*heardWord
	// byOperation has the same words, by operation and job.
	byOperation map[string]map[string]*actorpb.InstanceWord
	// order lists jobs in the order in which they were first heard of.
	order []string
}

type heardWord struct {
	word *actorpb.InstanceWord
	// forget is when it goes, unless its job runs.
	forget time.Time
	// over: its job did not run when that was last looked at. It is not passed on, for one that has
	// forgotten it would keep it again.
	over bool
}

// NewWordTable returns an empty table.
func NewWordTable(keep time.Duration, limit int) *WordTable {
	return &WordTable{keep: keep, limit: limit, words: map[string]*heardWord{}, byOperation: map[string]map[string]*actorpb.InstanceWord{}}
}

// Add implements hearsay.Table: it takes a word, and reports whether it is news: the first one
// of its instance, or a later one that says something else.
func (t *WordTable) Add(now time.Time, word *actorpb.InstanceWord) bool {
	id := word.GetJobId()
	if id == "" {
		return false
	}
	old, known := t.words[id]
	if known && !later(word, old.word) {
		return false
	}
	if !known {
		t.order = append(t.order, id)
	}
	t.words[id] = &heardWord{word: word, forget: now.Add(t.keep)}
	of := t.byOperation[word.GetOperationId()]
	if of == nil {
		of = map[string]*actorpb.InstanceWord{}
		t.byOperation[word.GetOperationId()] = of
	}
	of[id] = word
	for len(t.words) > t.limit {
		t.drop(t.order[0])
		t.order = t.order[1:]
	}
	return !known || old.word.GetWord() != word.GetWord() || old.word.GetReason() != word.GetReason()
}

// later: an instance has said a word after another one.
func later(word, other *actorpb.InstanceWord) bool {
	if word.GetSession() != other.GetSession() {
		return word.GetSession() > other.GetSession()
	}
	return word.GetNumber() > other.GetNumber()
}

func (t *WordTable) drop(job string) {
	operation := t.words[job].word.GetOperationId()
	delete(t.words, job)
	delete(t.byOperation[operation], job)
	if len(t.byOperation[operation]) == 0 {
		delete(t.byOperation, operation)
	}
}

// Expire forgets the words of jobs that do not run, as far as is known here.
func (t *WordTable) Expire(now time.Time, runs func(job string) bool) {
	kept := t.order[:0]
	for _, id := range t.order {
		heard := t.words[id]
		heard.over = !runs(id)
		switch {
		case !heard.over:
			heard.forget = now.Add(t.keep)
		case !now.Before(heard.forget):
			t.drop(id)
			continue
		}
		kept = append(kept, id)
	}
	t.order = kept
}

// Of returns the words of the instances of an operation, by job. They are not to be changed.
func (t *WordTable) Of(operation string) map[string]*actorpb.InstanceWord {
	return maps.Clone(t.byOperation[operation])
}

// Words is what a replica has heard of instances. It may be read from anywhere; its actor
// alone writes.
type Words struct {
	*hearsay.Known[*actorpb.InstanceWord, *WordTable]
}

// NewWords returns a place for what is heard.
func NewWords(table *WordTable, now func() time.Time) *Words {
	return &Words{hearsay.NewKnown(hearsay.Subject[*actorpb.InstanceWord, *WordTable]{
		Topic: WordTopic,
		Key:   (*actorpb.InstanceWord).GetJobId,
		Sign: func(w *actorpb.InstanceWord, by hearsay.Speaker, sequence uint64) {
			w.Origin, w.Incarnation, w.Sequence = by.Replica, by.Incarnation, sequence
		},
		All: func(table *WordTable, _ time.Time) proto.Message {
			all := &actorpb.InstanceWords{}
			for _, job := range table.order {
				if heard := table.words[job]; !heard.over {
					all.Words = append(all.Words, heard.word)
				}
			}
			return all
		},
		Each: func(all []byte) ([]*actorpb.InstanceWord, error) {
			var words actorpb.InstanceWords
			err := proto.Unmarshal(all, &words)
			return words.GetWords(), err
		},
	}, table, now)}
}

// Of returns the words of the instances of an operation, by job. They are not to be changed.
func (w *Words) Of(operation string) (words map[string]*actorpb.InstanceWord) {
	w.Read(func(table *WordTable, _ time.Time) { words = table.Of(operation) })
	return words
}
