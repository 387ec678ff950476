package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/messages/apipb"
	"weir/messages/eventpb"
	"weir/messages/statepb"
	"weir/raftstore/events"
)

// eventText is an event for people, on one line: when, where in the log, and what.
func eventText(e *eventpb.Event, where *time.Location) string {
	place := fmt.Sprintf("%d.%d", e.GetIndex(), e.GetPosition())
	return fmt.Sprintf("%s  %-10s  %s", e.GetTime().AsTime().In(where).Format("2006-01-02 15:04:05.000"), place, printable(happened(e, where)))
}

// happened says what happened.
func happened(e *eventpb.Event, where *time.Location) string {
	if said, ok := workHappened(e); ok {
		return said
	}
	switch {
	case e.GetKind() == events.LeaderChanged:
		return fmt.Sprintf("replica %s leads in term %d", e.GetReplica(), e.GetTerm())
	case strings.HasPrefix(e.GetKind(), "job_"):
		return jobHappened(e, where)
	case strings.HasPrefix(e.GetKind(), "operation_"):
		return operationHappened(e)
	case strings.HasPrefix(e.GetKind(), "node_"):
		return nodeHappened(e)
	default:
		return treeHappened(e)
	}
}

// phrase puts together the parts that say something.
func phrase(parts ...string) string {
	var said []string
	for _, part := range parts {
		if part != "" {
			said = append(said, part)
		}
	}
	return strings.Join(said, " ")
}

// put is text around a value, or nothing.
func put(before, value, after string) string {
	if value == "" {
		return ""
	}
	return before + value + after
}

func jobHappened(e *eventpb.Event, where *time.Location) string {
	verb := strings.TrimPrefix(e.GetKind(), "job_")
	subject := fmt.Sprintf("job %s", e.GetJob())
	on := phrase("on", e.GetNode(), fmt.Sprintf("(operation %s, task %s, pool %s)", e.GetOperation(), e.GetTask(), cmp.Or(e.GetPool(), none)))
	until := ""
	if e.GetDeadline() != nil && !e.GetDeadline().AsTime().Equal(e.GetTime().AsTime()) {
		until = fmt.Sprintf(", may stay until %s", e.GetDeadline().AsTime().In(where).Format("15:04:05.000"))
	}
	switch attributes := e.GetAttributes(); {
	case attributes["replaced"] != "":
		until += ", to be notified when its successor is ready"
	case attributes["held_until"] != "":
		until += ", to be notified when others can do without it"
	}
	switch e.GetKind() {
	case events.JobStarted:
		return phrase(subject, "started", on, put("with ", eventAmounts(e.GetResources()), ""))
	case events.JobPreempted:
		return phrase(subject, "preempted", on+":", e.GetPreemption(), put("for operation ", e.GetPreemptedFor().GetOperation(), "")) + until
	case events.JobInterrupted:
		by := put("by ", e.GetUser(), "")
		if e.GetInterruption() == statepb.InterruptedByUser {
			by = "" // The message says it.
		}
		return phrase(subject, "interrupted", on+":", e.GetInterruption(), by, put("(", e.GetMessage(), ")")) + until
	case events.JobStopping:
		return phrase(subject, "ordered to stop", on+":", e.GetReason(), put("(", e.GetMessage(), ")"))
	case events.JobFailed:
		if e.GetExitCode() < 0 { // killed by a signal, or never started
			break
		}
		verb = fmt.Sprintf("failed with exit code %d", e.GetExitCode())
	}
	ran := "after " + span(time.Duration(e.GetRunSeconds()*float64(time.Second)))
	if e.GetAttributes()["rerun"] == "true" {
		verb += " and runs again"
	}
	if e.GetAttributes()["given_up"] == "true" {
		verb += " in its last attempt"
	}
	said := phrase(subject, verb, ran, on)
	message := e.GetMessage()
	if message == fmt.Sprintf("exited with code %d", e.GetExitCode()) {
		message = ""
	}
	if e.GetPreemptedFor() != nil {
		// Why is told with the preemption.
		return said + put(": ", phrase(e.GetReason(), "for operation", e.GetPreemptedFor().GetOperation()), "")
	}
	if e.GetReason() != "" {
		message = put("(", message, ")")
	}
	return said + put(": ", phrase(e.GetReason(), message), "")
}

func operationHappened(e *eventpb.Event) string {
	subject := phrase("operation", e.GetOperation())
	in := put("in pool ", e.GetPool(), "")
	by := put("by ", e.GetUser(), "")
	switch e.GetKind() {
	case events.OperationAccepted:
		return phrase(subject, "accepted", in, by, put("(", cmp.Or(e.GetAttributes()["alias"], e.GetAttributes()["title"]), ")"))
	case events.OperationState:
		said := phrase(subject, e.GetFrom(), "->", e.GetTo(), in, by)
		return said + put(": ", phrase(e.GetReason(), put("(", e.GetMessage(), ")")), "")
	case events.OperationController:
		return phrase(subject, "is controlled by replica", e.GetReplica(), fmt.Sprintf("(epoch %d)", e.GetEpoch()))
	}
	verb := strings.TrimPrefix(e.GetKind(), "operation_")
	return phrase(subject, verb, in, by, put("(", e.GetReason(), ")")) + put(": ", settings(e.GetAttributes()), "")
}

// settings are new values of options by path; nothing is the default again.
func settings(of map[string]string) string {
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(of)) {
		if of[path] == "null" && path != "pool" && !strings.HasSuffix(path, ":pool") {
			parts = append(parts, defaultAgain(path))
			continue
		}
		parts = append(parts, path+"="+of[path])
	}
	return strings.Join(parts, ", ")
}

func nodeHappened(e *eventpb.Event) string {
	verb := strings.TrimPrefix(e.GetKind(), "node_")
	said := phrase("node", e.GetNode(), verb, put("by ", e.GetUser(), ""), put("with ", eventAmounts(e.GetResources()), ""))
	switch e.GetKind() {
	case events.NodeMoved:
		said = phrase("node", e.GetNode(), "moved from tree", cmp.Or(e.GetFrom(), none), "to", cmp.Or(e.GetTo(), none))
	case events.NodeOnline:
		said = phrase(said, put("in tree ", e.GetTree(), ""))
	}
	return said + put(": ", e.GetMessage(), "")
}

func treeHappened(e *eventpb.Event) string {
	subject, verb, _ := strings.Cut(e.GetKind(), "_")
	by := put("by ", e.GetUser(), "")
	switch e.GetKind() {
	case events.TreeDefault:
		return phrase("tree", e.GetTree(), "is the default now, instead of", e.GetFrom())
	case events.PoolRenamed:
		return phrase("pool", e.GetFrom(), "of tree", e.GetTree(), "renamed to", e.GetTo(), by)
	}
	name := phrase(e.GetPool(), "of tree", e.GetTree())
	if e.GetPool() == "" {
		name = e.GetTree()
	}
	below := ""
	if subject == "pool" {
		below = put("below ", e.GetTo(), "")
	}
	return phrase(subject, name, verb, below, by, put("(", e.GetReason(), ")")) + put(": ", settings(e.GetAttributes()), "")
}

func eventAmounts(r *eventpb.Resources) string {
	if r == nil {
		return ""
	}
	return amounts(&apipb.Resources{UserSlots: r.GetUserSlots(), Cpu: r.GetCpu(), Gpu: r.GetGpu(), Memory: r.GetMemory(), Network: r.GetNetwork()})
}
