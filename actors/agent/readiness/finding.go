package readiness

import (
	"strings"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

const maxReason = actorpb.MaxWordReason

// Finding is what is known of an instance's readiness. The zero value is for an instance
// without a readiness setting that has reported nothing. It is not safe for concurrent use.
type Finding struct {
	task *statepb.Readiness
	// said is the instance's own last report; empty: none.
	said string
	// probed is the result of its probe; empty: not known yet. failures counts failed probes
	// since the last success.
	probed   string
	failures int32
	reason   string
}

// Said records the instance's own report.
func (f *Finding) Said(word string) { f.said = word }

// Probed records the outcome of a probe: nil, or why the instance is not ready.
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

// Word returns the readiness to report, and why the instance is not ready. The readiness is empty
// if nothing is to be reported. The instance then counts as ready exactly if its task has no
// readiness setting. The instance's own reports "draining" and "not_ready" override the probe. Its
// own report "ready" counts only without a probe.
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

// probes reports whether instances of a task are probed. Otherwise only their own reports
// count.
func probes(task *statepb.Readiness) bool { return task != nil && !task.GetSocket() }

// clip returns the beginning of a text, on one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason-len("…")], "") + "…"
	}
	return s
}
