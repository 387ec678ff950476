package spec

import (
	"slices"
	"strings"

	"weir/messages/statepb"
)

// Options that say how the jobs of a task are interrupted (J.3).
const (
	fieldSignal      = "interruption_signal"
	fieldRootOnly    = "signal_root_process_only"
	fieldRestartCode = "restart_exit_code"
)

// MaxExitCode is the greatest exit code of a process.
const MaxExitCode = 255

// interruptionSignals are those that ask a process to go and that it can handle.
var interruptionSignals = []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGWINCH"}

// interruption takes how jobs are interrupted. What is said about the signal of jobs
// that have none would have no effect, and is a fault.
func (o options) interruption(task *statepb.TaskSpec) {
	task.InterruptionSignal = o.signal(fieldSignal)
	task.SignalRootProcessOnly = o.truth(fieldRootOnly)
	if o.set[fieldRestartCode] != nil {
		if code := int32(o.integer(fieldRestartCode, 0, 1, MaxExitCode)); code != 0 {
			task.RestartExitCode = &code
		}
	}
	if o.set[fieldSignal] != nil {
		return
	}
	for _, name := range []string{fieldRootOnly, fieldRestartCode} {
		if o.set[name] != nil {
			o.fault(name, "it says what a signal does, and there is no %s: add it, such as %s: SIGTERM, or leave this out", fieldSignal, fieldSignal)
		}
	}
}

// signal returns the name of a signal, written out; empty: none.
func (o options) signal(name string) string {
	v := o.get(name, text)
	if v == nil {
		return ""
	}
	full := strings.ToUpper(strings.TrimSpace(v.text))
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	switch {
	case slices.Contains(interruptionSignals, full):
		return full
	case full == "SIGKILL" || full == "SIGSTOP":
		o.fault(name, "%s cannot be handled by a process, so that no job could leave well: write one of %s", full, strings.Join(interruptionSignals, ", "))
	default:
		o.fault(name, "%q is no signal that asks a job to go: write one of %s", clip(v.text), strings.Join(interruptionSignals, ", "))
	}
	return ""
}

func formatInterruption(out map[string]any, task *statepb.TaskSpec) {
	if task.GetInterruptionSignal() == "" {
		return
	}
	out[fieldSignal], out[fieldRootOnly] = task.GetInterruptionSignal(), task.GetSignalRootProcessOnly()
	if task.RestartExitCode != nil {
		out[fieldRestartCode] = task.GetRestartExitCode()
	}
}
