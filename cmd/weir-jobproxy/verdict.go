package main

import (
	"errors"
	"fmt"

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
}

// decided says whether a cause is known.
func (v *verdict) decided() bool { return v.outcome != "" }

// decide takes a cause, unless there is one already.
func (v *verdict) decide(cause verdict) {
	if !v.decided() {
		*v = cause
	}
}

// causeOfExit judges a root process that ended by itself.
func causeOfExit(status unix.WaitStatus, events cgroup.MemoryEvents) verdict {
	switch {
	case !status.Signaled():
		return verdict{outcome: proxyproto.OutcomeExited}
	case events.Killed && status.Signal() == unix.SIGKILL:
		return verdict{outcome: proxyproto.OutcomeSignaled, err: "the machine, not the job, ran out of memory"}
	default:
		return verdict{outcome: proxyproto.OutcomeSignaled}
	}
}

// apply fills in the result of a job whose root process ended so.
func (v *verdict) apply(result *proxyproto.Result, status unix.WaitStatus) {
	result.Outcome, result.Reason, result.Error, result.Memory = v.outcome, v.reason, v.err, v.memory
	result.ExitCode = -1
	switch {
	case status.Exited():
		result.ExitCode = status.ExitStatus()
	case status.Signaled():
		result.Signal = unix.SignalName(status.Signal())
	}
}

// checkCommand says what is wrong with a message from the agent.
func checkCommand(message proxyproto.Message, ended bool) error {
	switch {
	case message.Renew != nil:
		if lease := message.Renew.LeaseMillis; lease <= 0 || lease > proxyproto.MaxMillis {
			return fmt.Errorf("lease_millis: %d, must be between 1 and %d", lease, int64(proxyproto.MaxMillis))
		}
	case message.Signal != nil:
		if unix.SignalNum(message.Signal.Name) == 0 {
			return fmt.Errorf("name: no signal is called %.40q, want one like SIGINT", message.Signal.Name)
		}
		if ended {
			return errors.New("the job has ended")
		}
	case message.Interrupt != nil:
		if unix.SignalNum(message.Interrupt.Signal) == 0 {
			return fmt.Errorf("signal: no signal is called %.40q, want one like SIGINT", message.Interrupt.Signal)
		}
		if grace := message.Interrupt.GraceMillis; grace < 0 || grace > proxyproto.MaxMillis {
			return fmt.Errorf("grace_millis: %d, must be between 0 and %d", grace, int64(proxyproto.MaxMillis))
		}
	case message.Stop != nil:
		if grace := message.Stop.GraceMillis; grace < 0 || grace > proxyproto.MaxMillis {
			return fmt.Errorf("grace_millis: %d, must be between 0 and %d", grace, int64(proxyproto.MaxMillis))
		}
	case message.Release != nil:
		if !ended {
			return errors.New("the job runs, stop it first")
		}
	default:
		return errors.New("it is for agents, not from them")
	}
	return nil
}
