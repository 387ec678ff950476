package main

import (
	"fmt"
	"strings"

	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// readPart returns the fraction of the input that has been read.
func readPart(p *apipb.InputProgress) *float64 {
	part := float64(p.GetBytes()) / float64(max(p.GetBytesTotal(), 1))
	return &part
}

// inputText returns the size and progress of a map operation's input; "" for other
// operations.
func inputText(op *apipb.Operation) string {
	var parts []string
	if in := op.GetInput(); in != nil {
		parts = append(parts, fmt.Sprintf("%s in %s", size(in.GetBytes()), several(in.GetFiles(), "file")))
	}
	if p := op.GetProgress().GetInput(); p != nil {
		parts = append(parts, fmt.Sprintf("%s (%s) and %s read", size(p.GetBytes()), share(readPart(p)), several(p.GetRows(), "row")))
		if p.GetSkippedRecords() > 0 {
			parts = append(parts, several(p.GetSkippedRecords(), "record")+" skipped")
		}
	}
	return strings.Join(parts, "; ")
}

// outputText returns the path and size of a map operation's output; "" for other
// operations.
func outputText(op *apipb.Operation) string {
	switch out := op.GetOutput(); {
	case out != nil:
		return fmt.Sprintf("%s: %s, %s", out.GetPath(), several(out.GetRows(), "row"), size(out.GetBytes()))
	case op.GetType() == lifecycle.Map && !terminal(op):
		return "none until the operation completes"
	case op.GetType() == lifecycle.Map:
		return "none: the operation did not complete"
	}
	return ""
}

// skippedText lists the records on which every job failed.
func skippedText(op *apipb.Operation) string {
	g := newGrid("skipped record of", "from byte>", "to>", "it begins with")
	for _, t := range op.GetTasks() {
		for _, r := range t.GetInput().GetSkipped() {
			g.row(r.GetFile(), r.GetBegin(), r.GetEnd(), clip(printable(r.GetHead()), 60))
		}
	}
	return g.section("")
}

// sliceText describes the input slice of a job. Its file has a name only until the
// operation ends.
func sliceText(s *apipb.InputSlice) string {
	if s.GetFile() == "" {
		return fmt.Sprintf("bytes %d to %d of a file whose name was dropped when the operation ended", s.GetBegin(), s.GetEnd())
	}
	return fmt.Sprintf("%s, bytes %d to %d", s.GetFile(), s.GetBegin(), s.GetEnd())
}

// inputFacts adds what a job of a map operation reads, has read and has written.
func inputFacts(page facts, j *apipb.Job) {
	in := j.GetInput()
	const most = 10
	for i, s := range in.GetSlices() {
		if i == most {
			page.add("and", fmt.Sprintf("%d more slices", len(in.GetSlices())-most))
			break
		}
		page.add("reads", sliceText(s))
	}
	if in != nil && j.GetFinishTime() != nil {
		page.add("has read", fmt.Sprintf("%s, %s", several(in.GetRows(), "row"), size(in.GetBytes()))+
			when(in.GetRestBytes() > 0, fmt.Sprintf("; %s were left to another job", size(in.GetRestBytes()))))
	}
	out := j.GetOutput()
	page.add("has written", when(out != nil, fmt.Sprintf("%s, %s", several(out.GetRows(), "row"), size(out.GetBytes()))))
}

// gangText returns the progress of a gang.
func gangText(g *apipb.GangProgress) string {
	return fmt.Sprintf("incarnation %d, %d of %d ranks have completed", g.GetIncarnation(), g.GetCompletedRanks(), g.GetSize()) +
		when(g.GetReason() != "", "; the previous incarnation ended: "+g.GetReason())
}

// rankText returns a job's rank in its gang; "" for a job outside a gang.
func rankText(j *apipb.Job) string {
	switch {
	case j.GangRank != nil:
		return fmt.Sprintf("%d of incarnation %d", j.GetGangRank(), j.GetGangIncarnation())
	case j.GetGangIncarnation() > 0:
		return fmt.Sprintf("none: spare job of incarnation %d", j.GetGangIncarnation())
	}
	return ""
}
