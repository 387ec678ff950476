package readiness

import (
	"strings"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// maxReason bounds the reason of a word, in bytes: words of thousands of instances are told
// to replicas that join.
const maxReason = 80

// Finding is what is known of an instance. The zero one is of a task without readiness that
// has said nothing. It is not safe for concurrent use.
type Finding struct {
	task *statepb.Readiness
	// said is what the instance has said last; empty: nothing.
	said string
	// probed is what its probe has found, which failed so often in a row since it was found
	// to be ready; unknown before the first.
	probed   string
	failures int32
	reason   string
}

// Said takes what the instance says of itself.
func (f *Finding) Said(word string) { f.said = word }

// Probed takes the outcome of a probe: nil, or why the instance takes no requests.
func (f *Finding) Probed(err error) {
	if err == nil {
		f.probed, f.failures, f.reason = actorpb.WordReady, 0, ""
		return
	}
	f.failures++
	if f.probed == actorpb.WordNotReady || f.failures >= f.task.GetFailures() {
		f.probed, f.reason = actorpb.WordNotReady, clip(err.Error())
	}
}

// Word returns what is to be told, and why the instance is not ready. Empty: nothing, who
// hears nothing takes the instance of a task with readiness for one that is not ready, and any
// other for one that is. The instance knows best that it leaves, or is not ready; that it is
// counts where there is no probe.
func (f *Finding) Word() (word, reason string) {
	switch {
	case f.said == actorpb.WordDraining:
		return actorpb.WordDraining, ""
	case f.said == actorpb.WordNotReady:
		return actorpb.WordNotReady, "reported by the instance"
	case probes(f.task):
		return f.probed, f.reason
	}
	return f.said, ""
}

// probes tells whether an instance is asked.
func probes(task *statepb.Readiness) bool { return task != nil && !task.GetSocket() }

// clip returns the beginning of a text, on one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason-len("…")], "") + "…"
	}
	return s
}
