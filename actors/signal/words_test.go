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
	words := NewWords(time.Minute, 10, at(noon), nil)
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
		if got := words.Add(step.word); got != step.wantNews {
			t.Errorf("%s: news %t, want %t", step.story, got, step.wantNews)
		}
		id := step.word.GetJobId()
		if got := words.Of("op of " + id)[id].GetWord(); got != step.want {
			t.Errorf("%s: %q is known, want %q", step.story, got, step.want)
		}
	}
}

// TestWordsGoWithTheirJobs: a word stays as long as its job runs, and a while longer, for a
// replica may hear it before it knows of the job.
func TestWordsGoWithTheirJobs(t *testing.T) {
	now, running := noon, "runs"
	words := NewWords(time.Minute, 10, func() time.Time { return now }, func(job string) bool { return job == running })
	words.Add(wordOf("runs", "ready", 1, 1))
	words.Add(wordOf("ended", "ready", 1, 1))
	known := func(job string) bool { return words.Get(job) != nil && len(words.Of("op of "+job)) == 1 }
	look := func(after time.Duration) {
		now = noon.Add(after)
		words.Expire()
	}
	look(time.Second)
	if !known("runs") || !known("ended") {
		t.Error("after a second: a word is forgotten")
	}
	look(time.Hour)
	running = ""
	look(time.Hour + 30*time.Second)
	if !known("runs") || known("ended") {
		t.Errorf("after an hour: runs %t, ended %t, want the word of the job that ran until then", known("runs"), known("ended"))
	}
	look(2 * time.Hour)
	if words.Get("runs") != nil || len(words.Of("op of runs"))+len(words.All()) != 0 {
		t.Errorf("in the end: %v, want nothing", words.All())
	}
}

// TestWordsAreBounded: those of the instances that were heard of first go, and all that are
// kept fit into what a replica that joins is told.
func TestWordsAreBounded(t *testing.T) {
	words := NewWords(time.Minute, 3, at(noon), nil)
	for i := range 10 {
		words.Add(wordOf(fmt.Sprint(i), "ready", 1, 1))
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
	var running []string
	now := noon
	words := NewWords(time.Minute, 10, func() time.Time { return now }, func(job string) bool { return slices.Contains(running, job) })
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
	look := func(after time.Duration, runs ...string) {
		now, running = noon.Add(after), runs
		words.Expire()
	}
	words.Add(wordOf("a", "ready", 1, 1))
	words.Add(wordOf("b", "ready", 1, 1))
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
