package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// verdict is why the job ends. The first cause counts.
type verdict struct {
	outcome proxyproto.Outcome
	reason  string
	err     string
	memory  *proxyproto.MemoryExcess
	disk    *proxyproto.DiskExcess
	fault   *proxyproto.InputFault
}

// decided says whether a cause is known.
func (v *verdict) decided() bool { return v.outcome != "" }

// decide records a cause, unless there is one already.
func (v *verdict) decide(cause verdict) {
	if !v.decided() {
		*v = cause
	}
}

const (
	// mostError and mostText limit texts for people, in bytes. A whole result must fit into one
	// line of the protocol, even if each byte is escaped with six.
	mostError = 4 << 10
	mostText  = 1 << 10
)

// clip returns the text. If it is longer than the given number of bytes, it is cut there, and "..."
// is appended.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// causeOfExit returns the verdict for a root process that ended by itself, with the likely cause.
func causeOfExit(status unix.WaitStatus, events cgroup.MemoryEvents, refusedForks int64, pidsLimit int) verdict {
	cause := verdict{outcome: proxyproto.OutcomeExited}
	if status.Signaled() {
		cause.outcome = proxyproto.OutcomeSignaled
	}
	switch {
	case status.Signaled() && status.Signal() == unix.SIGKILL && events.Killed:
		cause.err = "the machine, not the job, ran out of memory"
	case status != 0 && refusedForks > 0:
		cause.err = fmt.Sprintf("Process limit exceeded: failed %s to start a process or thread, the limit is %d", times(refusedForks), pidsLimit)
	}
	return cause
}

// times says how often something happened.
func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// apply sets the fields of a result. `status` is how the root process ended.
func (v *verdict) apply(result *proxyproto.Result, status unix.WaitStatus) {
	result.Outcome, result.Reason, result.Error = v.outcome, clip(v.reason, mostText), clip(v.err, mostError)
	result.Memory, result.Disk = v.memory, v.disk
	if v.fault != nil {
		fault := *v.fault
		fault.Name, fault.Text = clip(fault.Name, mostText), clip(fault.Text, mostText)
		result.InputFault = &fault
	}
	result.ExitCode = -1
	switch {
	case status.Exited():
		result.ExitCode = status.ExitStatus()
	case status.Signaled():
		result.Signal = unix.SignalName(status.Signal())
	}
}

// checkCommand returns an error if a message of the agent is invalid.
func checkCommand(message proxyproto.Message, ended bool) error {
	const most = proxyproto.MaxMillis
	switch {
	case message.Renew != nil:
		return cmp.Or(proxyproto.Between("lease_millis", message.Renew.LeaseMillis, 1, most), proxyproto.Between("end_millis", message.Renew.EndMillis, 0, 2*most))
	case message.Interrupt != nil:
		if signal := message.Interrupt.Signal; signal != "" && unix.SignalNum(signal) == 0 {
			return fmt.Errorf("signal: unknown signal %.40q, want one like SIGINT", signal)
		}
		return proxyproto.Between("grace_millis", message.Interrupt.GraceMillis, 0, most)
	case message.Probe != nil:
		if len(message.Probe.Argv) == 0 {
			return errors.New("argv: empty: the program to run is missing")
		}
		return proxyproto.Between("timeout_millis", message.Probe.TimeoutMillis, 1, most)
	case message.Exec != nil:
		if len(message.Exec.Argv) == 0 {
			return errors.New("argv: empty: the program to run is missing")
		}
	case message.Run != nil:
		return errors.New("the proxy has a job that has not been released")
	case message.HangUp != nil, message.Measure != nil:
	case message.Stop != nil:
		return proxyproto.Between("grace_millis", message.Stop.GraceMillis, 0, most)
	case message.Release != nil:
		if !ended {
			return errors.New("the job is still running: stop it first")
		}
	default:
		return errors.New("only the proxy sends this message, agents do not")
	}
	return nil
}
