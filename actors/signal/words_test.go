package signal

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"weir/messages/actorpb"
)

func wordOf(job, word string, session, number uint64) *actorpb.InstanceWord {
	return &actorpb.InstanceWord{OperationId: "op of " + job, JobId: job, Word: word, Session: session, Number: number}
}

func TestWordTable(t *testing.T) {
	table := NewWordTable(time.Minute, 10)
	for _, step := range []struct {
		story    string
		word     *actorpb.InstanceWord
		wantNews bool
		want     string
	}{
		{"the first word of an instance is news", wordOf("a", "ready", 1, 1), true, "ready"},
		{"the same again is not", wordOf("a", "ready", 1, 1), false, "ready"},
		{"a later one that says the same is not", wordOf("a", "ready", 1, 3), false, "ready"},
		{"one that was overtaken is not", wordOf("a", "not_ready", 1, 2), false, "ready"},
		{"a later one is", wordOf("a", "not_ready", 1, 4), true, "not_ready"},
		{"so is one of the agent's next session, whatever its number", wordOf("a", "ready", 2, 1), true, "ready"},
		{"what an earlier session has said comes too late", wordOf("a", "draining", 1, 9), false, "ready"},
		{"a word about no job is dropped", wordOf("", "ready", 1, 1), false, ""},
	} {
		if got := table.Add(noon, step.word); got != step.wantNews {
			t.Errorf("%s: news %t, want %t", step.story, got, step.wantNews)
		}
		id := step.word.GetJobId()
		if got := table.Of("op of " + id)[id].GetWord(); got != step.want {
			t.Errorf("%s: %q is known, want %q", step.story, got, step.want)
		}
	}
}

// TestWordsGoWithTheirJobs: a word stays as long as its job runs, and a while longer, for a
// replica may hear it before it knows of the job.
func TestWordsGoWithTheirJobs(t *testing.T) {
	table := NewWordTable(time.Minute, 10)
	table.Add(noon, wordOf("runs", "ready", 1, 1))
	table.Add(noon, wordOf("ended", "ready", 1, 1))
	runs := func(job string) bool { return job == "runs" }
	table.Expire(noon.Add(time.Second), runs)
	if len(table.words) != 2 {
		t.Errorf("after a second: %d words, want both", len(table.words))
	}
	table.Expire(noon.Add(time.Hour), runs)
	table.Expire(noon.Add(time.Hour+30*time.Second), func(string) bool { return false })
	if len(table.words) != 1 || table.words["runs"] == nil || len(table.byOperation) != 1 || len(table.order) != 1 {
		t.Errorf("after an hour: %v, want the word of the job that ran until then", table.words)
	}
	table.Expire(noon.Add(2*time.Hour), func(string) bool { return false })
	if len(table.words)+len(table.byOperation)+len(table.order) != 0 {
		t.Errorf("in the end: %v, want nothing", table.words)
	}
}

// TestWordsAreBounded: those of the instances that were heard of first go, and all that are
// kept fit into what a replica that joins is told.
func TestWordsAreBounded(t *testing.T) {
	words := NewWords(NewWordTable(time.Minute, 3), func() time.Time { return noon })
	for i := range 10 {
		words.Change(func(table *WordTable, now time.Time) { table.Add(now, wordOf(fmt.Sprint(i), "ready", 1, 1)) })
	}
	var all actorpb.InstanceWords
	if err := proto.Unmarshal(words.LocalState(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.GetWords()) != 3 || all.GetWords()[0].GetJobId() != "7" || all.GetWords()[2].GetJobId() != "9" {
		t.Errorf("kept %v, want the last three", all.GetWords())
	}
}

// TestWordsOfEndedJobsAreNotPassedOn: replicas forget them at different times, and tell each other
// all that they know in between.
func TestWordsOfEndedJobsAreNotPassedOn(t *testing.T) {
	words := NewWords(NewWordTable(time.Minute, 10), func() time.Time { return noon })
	told := func(story string, want ...string) {
		t.Helper()
		var all actorpb.InstanceWords
		if err := proto.Unmarshal(words.LocalState(), &all); err != nil {
			t.Fatal(err)
		}
		var jobs []string
		for _, word := range all.GetWords() {
			jobs = append(jobs, word.GetJobId())
		}
		if !slices.Equal(jobs, want) {
			t.Errorf("%s: tells of %q, want %q", story, jobs, want)
		}
	}
	look := func(after time.Duration, running ...string) {
		words.Change(func(table *WordTable, _ time.Time) {
			table.Expire(noon.Add(after), func(job string) bool { return slices.Contains(running, job) })
		})
	}
	words.Change(func(table *WordTable, now time.Time) {
		table.Add(now, wordOf("a", "ready", 1, 1))
		table.Add(now, wordOf("b", "ready", 1, 1))
	})
	told("words that have just come", "a", "b")
	look(10*time.Second, "a")
	told("one job has ended", "a")
	look(20*time.Second, "a", "b")
	told("its grant was not known yet", "a", "b")
	look(30 * time.Second)
	told("both have ended")
	if known := words.Of("op of a"); known["a"].GetWord() != "ready" {
		t.Errorf("known: %v, want the word of a job that has just ended", known)
	}
}
