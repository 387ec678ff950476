package main

import (
	"fmt"
	"strconv"

	"weir/messages/eventpb"
	"weir/raftstore/events"
)

// workHappened says what happened to the memory, the input or the gang of a task; false:
// it is about something else.
func workHappened(e *eventpb.Event) (said string, ok bool) {
	of := e.GetAttributes()
	task := fmt.Sprintf("task %s of operation %s", e.GetTask(), e.GetOperation())
	switch e.GetKind() {
	case events.ReserveMoved:
		return fmt.Sprintf("%s reserves %s for a job instead of %s (samples: %s)", task, sizeOf(of["memory"]), sizeOf(of["memory_before"]), of["samples"]), true
	case events.GangIncarnation:
		return fmt.Sprintf("gang %s restarts as incarnation %s: %s", task, of["incarnation"], e.GetMessage()), true
	case events.RecordSkipped:
		return fmt.Sprintf("%s skips a record on which every job failed: %s, bytes %s to %s: %s", task, of["path"], of["begin"], of["end"], of["head"]), true
	case events.OutputPublished:
		return fmt.Sprintf("operation %s has published %s: %s rows, %s", e.GetOperation(), of["path"], of["rows"], sizeOf(of["bytes"])), true
	case events.ProfileSaved:
		return fmt.Sprintf("%s leaves memory profile %s, of %s jobs in %s operations", task, of["profile"], of["samples"], of["operations"]), true
	case events.ProfileRemoved:
		return phrase("memory profile", of["profile"], "forgotten", put("by ", e.GetUser(), "")), true
	}
	return "", false
}

// sizeOf writes bytes that are told as text.
func sizeOf(bytes string) string {
	n, err := strconv.ParseInt(bytes, 10, 64)
	if err != nil {
		return bytes
	}
	return size(n)
}
