package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"weir/messages/explainpb"
)

func explanationsText(all []*explainpb.Explanation, now time.Time) string {
	parts := make([]string, len(all))
	for i, x := range all {
		parts[i] = explanationText(x, now)
	}
	return strings.Join(parts, "\n")
}

// explanationText is an explanation for people: the answer, and the facts below it.
func explanationText(x *explainpb.Explanation, now time.Time) string {
	var b strings.Builder
	title := x.GetSubject() + " " + x.GetId()
	if x.GetState() != "" {
		title += ", " + x.GetState()
	}
	if x.GetSubject() != "pool" && x.GetPool() != "" {
		title += ", in pool " + x.GetPool()
	}
	if x.GetTree() != "" {
		title += " of tree " + x.GetTree()
	}
	fmt.Fprintf(&b, "%s\n", printable(title))
	fmt.Fprintf(&b, "%s\n", printable(sentence(here(cmp.Or(x.GetText(), "nothing to explain"), now))))
	if x.GetEstimatedStart() != nil {
		fmt.Fprintf(&b, "expected start: %s\n", printable(startText(x, now)))
	}
	for i, fact := range x.GetFacts() {
		// The line above says when it starts.
		if i > 0 && fact.GetCode() != "estimated_start" {
			fmt.Fprintf(&b, "  - %s\n", printable(here(fact.GetText(), now)))
		}
	}
	if victims := x.GetLikelyVictims(); len(victims) > 0 {
		b.WriteString("\njobs that would be preempted:\n")
		g := newGrid("job", "operation", "node", "started")
		for _, v := range victims {
			g.row(v.GetJob(), v.GetOperation(), v.GetNode(), age(v.GetStartTime(), now))
		}
		b.WriteString(g.String())
	}
	if tasks := x.GetTasks(); differ(tasks) {
		b.WriteString("\nwhat its tasks wait for:\n")
		g := newGrid("task", "waits for", "jobs", "nodes that fit", "nodes")
		for _, t := range tasks {
			g.row(t.GetName(), t.GetVerdict(), fmt.Sprint(t.GetPending()), fmt.Sprint(t.GetNodes().GetFit()), fmt.Sprint(t.GetNodes().GetAll()))
		}
		b.WriteString(g.String())
	}
	if waits := x.GetWaits(); len(waits) > 0 {
		b.WriteString("\nwhat its operations wait for:\n")
		g := newGrid("waits for", "operations", "jobs", "first", "why it waits")
		for _, w := range waits {
			g.row(w.GetVerdict(), fmt.Sprint(w.GetOperations()), fmt.Sprint(w.GetJobs()), w.GetFirst(), here(w.GetText(), now))
		}
		b.WriteString(g.String())
	}
	return b.String()
}

// startText is when a job is expected to start, from when to when, and how it gets its room.
func startText(x *explainpb.Explanation, now time.Time) string {
	start, text := x.GetEstimatedStart().AsTime().Sub(now), "at any moment"
	if start >= time.Second {
		text = "in about " + span(start)
	}
	if latest := x.GetEstimatedLatest(); latest != nil {
		earliest := x.GetEstimatedEarliest().AsTime().Sub(now)
		from := fmt.Sprintf("between %s and ", span(earliest))
		if earliest < time.Second {
			from = "at most "
		}
		text += ", " + from + span(latest.AsTime().Sub(now))
	}
	if by := x.GetEstimatedBy(); by != "" {
		text += " (" + strings.ReplaceAll(by, "_", " ") + ")"
	}
	return text
}

// differ reports whether tasks do not all wait for the same.
func differ(tasks []*explainpb.Task) bool {
	for _, t := range tasks {
		if t.GetVerdict() != tasks[0].GetVerdict() {
			return true
		}
	}
	return false
}

// instants are times as replicas write them into texts.
var instants = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b`)

// here writes the times in a text as the clock here shows them, with its zone.
func here(text string, now time.Time) string {
	return instants.ReplaceAllStringFunc(text, func(instant string) string {
		t, err := time.Parse(time.RFC3339Nano, instant)
		if err != nil {
			return instant
		}
		return t.In(now.Location()).Format("2006-01-02 15:04:05 MST")
	})
}

// sentence begins with a capital.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
