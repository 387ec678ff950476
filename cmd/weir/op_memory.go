package main

import (
	"fmt"
	"strings"

	"weir/messages/apipb"
	"weir/scheduling/lifecycle"
)

// reserveText says what memory is held for a job, for whom, and by which factor.
func reserveText(r *apipb.JobReserve, limit int64) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%s: %s for its processes", size(r.GetTotal()), size(r.GetUser()))
	if limit > 0 {
		text += fmt.Sprintf(" (%s of the limit, %s)", share(&r.UserFactor), size(limit))
	}
	return text + fmt.Sprintf(", %s for its job proxy (%s times %s)", size(r.GetProxy()), number(r.GetProxyFactor(), 2), size(r.GetProxyEstimate()))
}

// learnedText draws what each task has learned of its jobs' memory: what the next job
// gets for its processes, which is a part of memory_limit, and for its job proxy, which
// is not.
func learnedText(op *apipb.Operation) string {
	g := newGrid("memory of", "limit>", "process reserve>", "of the limit>", "proxy reserve>", "together>", "learned from", "overdrafts>", "profile")
	rows := 0
	for _, t := range op.GetTasks() {
		m := t.GetMemory()
		r := m.GetReserve()
		if r == nil {
			continue
		}
		from := "nothing yet"
		switch {
		case m.GetSamples() > 0 && m.GetFromProfile():
			from = several(m.GetSamples(), "job") + ", and earlier operations"
		case m.GetSamples() > 0:
			from = several(m.GetSamples(), "job")
		case m.GetFromProfile():
			from = "earlier operations"
		}
		g.row(t.GetName(), size(m.GetLimit()), size(r.GetUser()), share(&r.UserFactor), size(r.GetProxy()), size(r.GetTotal()), from,
			t.GetAbortedByReason()[lifecycle.AbortResourceOverdraft.String()], m.GetProfile())
		rows++
	}
	if rows == 0 {
		return ""
	}
	return "\n" + g.String()
}

// alertsText tells what the owner of an operation can do better.
func alertsText(alerts []*apipb.Alert) string {
	if len(alerts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nalerts:\n")
	for _, a := range alerts {
		name := a.GetName()
		if a.GetTask() != "" {
			name += " of task " + a.GetTask()
		}
		fmt.Fprintf(&b, "  %s: %s\n", printable(name), printable(a.GetMessage()))
		if a.GetAdvice() != "" {
			fmt.Fprintf(&b, "    %s\n", printable(a.GetAdvice()))
		}
	}
	return b.String()
}
