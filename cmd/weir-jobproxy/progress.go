package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

// progress distinguishes a slow end of a job from one that hangs. It holds the current step, and
// when that step last progressed. Its methods may be called from any goroutine.
type progress struct {
	mu    sync.Mutex
	step  string
	moved time.Time
}

// begin begins a step.
func (p *progress) begin(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.moved = step, time.Now()
}

// move notes that the current step progresses.
func (p *progress) move() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved = time.Now()
}

// forgive excludes the duration `lost` from the time without progress.
func (p *progress) forgive(lost time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved = p.moved.Add(lost); p.moved.After(now) {
		p.moved = now
	}
}

// idle returns the current step, and how long ago it last progressed.
func (p *progress) idle(now time.Time) (string, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step, now.Sub(p.moved)
}

// stallChecks is the number of checks within the time that the end of a job may go without
// progress.
const stallChecks = 8

// endWatch makes sure that the end of the job progresses.
type endWatch struct {
	*progress
	// limit is how long the end may go without progress. due is the time of the next check.
	limit time.Duration
	timer *time.Timer
	due   time.Time
	// hang describes the step that hung, if any.
	hang *proxyproto.Hang
}

// start begins to watch, with a step.
func (w *endWatch) start(step string) {
	w.begin(step)
	w.again()
}

// again schedules the next check.
func (w *endWatch) again() {
	period := w.limit / stallChecks
	w.timer.Reset(period)
	w.due = time.Now().Add(period)
}

// stalled returns the step that has gone without progress for too long, and for how long. Otherwise
// it schedules another check.
func (w *endWatch) stalled(now time.Time) (step string, idle time.Duration, stalled bool) {
	// While the proxy itself is stopped, no step can progress.
	if late := now.Sub(w.due); late > w.limit/stallChecks {
		w.forgive(late, now)
	}
	step, idle = w.idle(now)
	if idle < w.limit {
		w.again()
		return "", 0, false
	}
	return step, idle, true
}

// checkStall ends the job without waiting for a step that hangs.
func (s *supervisor) checkStall(now time.Time) {
	step, idle, stalled := s.ending.stalled(now)
	if !stalled {
		return
	}
	hang := &proxyproto.Hang{Step: step, IdleMillis: idle.Milliseconds(), Processes: s.hanging()}
	complain(errors.New(hang.String()))
	switch {
	case s.conclusion.result != nil:
		// Only the write of the result hangs. Send the result: the agent stores it too.
		s.tell()
	default:
		s.giveUp(hang)
	}
}

// giveUp ends a job whose end hangs. The hanging step may finish later, but whatever it has not
// stored by now is lost.
func (s *supervisor) giveUp(hang *proxyproto.Hang) {
	if s.cancelFlush != nil {
		s.cancelFlush()
	}
	s.ending.hang = hang
	completed := s.completed()
	if s.gone != nil {
		s.gone = nil
		s.measureEnd(0)
	}
	switch {
	case s.abandoned.decided():
		s.verdict = s.abandoned
	case completed:
		s.verdict = verdict{outcome: proxyproto.OutcomeEndHung}
	}
	s.verdict.err = strings.TrimPrefix(s.verdict.err+"; "+hang.String(), "; ")
	s.conclude(s.rootStatus())
}

// hanging returns the remaining processes of the job, and the proxy itself if it hangs in the
// kernel.
func (s *supervisor) hanging() []proxyproto.HungProcess {
	var list []proxyproto.HungProcess
	if s.gone != nil {
		processes, err := s.inside.processes()
		complain(err)
		for _, process := range processes {
			list = append(list, proxyproto.HungProcess{Identity: s.outside.identity(process.Identity), Name: process.Name, Wait: waitingIn(process.Pid)})
		}
	}
	if wait := waitingIn(os.Getpid()); wait != "" {
		list = append(list, proxyproto.HungProcess{Identity: s.outside.self, Name: "weir-jobproxy", Wait: wait})
	}
	return list[:min(len(list), biggest)]
}

// waitingIn returns the kernel function in which a thread of a process waits uninterruptibly,
// as far as the kernel reveals it; empty if there is no such thread.
func waitingIn(pid int) string {
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*"))
	if err != nil {
		return ""
	}
	for _, task := range tasks {
		thread, err := proctree.ReadTask(task)
		if err != nil || !thread.Stuck {
			continue
		}
		if place, err := os.ReadFile(filepath.Join(task, "wchan")); err == nil && len(place) > 1 {
			return string(place)
		}
		return "the kernel"
	}
	return ""
}
