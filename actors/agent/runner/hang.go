package runner

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// ErrHung is returned, wrapped, while a job has a process that no signal ends, typically
// because it waits in the kernel for a disk that does not answer.
var ErrHung = errors.New("hangs and cannot be killed")

// killProxy kills the proxy, after which the method run ends the job.
func (j *Job) killProxy() {
	<-j.tried
	if j.proxy == nil {
		return
	}
	j.mu.Lock()
	var err error
	if !j.rested {
		err = j.proxy.kill()
	}
	j.mu.Unlock()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		j.runner.config.Logger.Error("cannot kill job proxy", "job", j.id, "error", err)
	}
	time.AfterFunc(j.runner.config.EndTimeout, func() {
		select {
		case <-j.proxy.gone:
		default:
			j.hangs()
		}
	})
}

// awaitProxy waits until a proxy that was asked to exit, or killed, has gone.
func (j *Job) awaitProxy(patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-j.proxy.gone:
		return nil
	case <-timer.C:
		return fmt.Errorf("weir-jobproxy (pid %d) %w", j.identity.Pid, ErrHung)
	}
}

// endHung returns an error that names a process that was listed as hung when the job ended and is
// still alive. If there is none, endHung kills the job's other processes.
func (j *Job) endHung() error {
	hang := j.Result().Hang
	if hang == nil {
		return nil
	}
	for _, process := range hang.Processes {
		if proctree.Alive(process.Identity) {
			return fmt.Errorf("%v %w", process, ErrHung)
		}
	}
	// The list may be cut short.
	if err := j.endProcesses(); err != nil {
		return fmt.Errorf("%w: %w", ErrHung, err)
	}
	return nil
}

// givenUp completes the result of a job whose processes could not be killed.
func (j *Job) givenUp(result *Result, cause error) *Result {
	if result.Hang == nil {
		result.Hang = &proxyproto.Hang{Step: "kill its processes", IdleMillis: millis(j.runner.config.EndTimeout)}
	}
	result.Error = strings.TrimPrefix(result.Error+": "+cause.Error(), ": ")
	return result
}
