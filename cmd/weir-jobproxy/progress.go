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

// progress tells an end of a job that is slow from one that hangs: it knows what is being
// done, and when that last moved. Its methods may be called from any goroutine.
type progress struct {
	mu    sync.Mutex
	step  string
	moved time.Time
}

// begin says what is done next.
func (p *progress) begin(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.moved = step, time.Now()
}

// move says that what is being done goes on.
func (p *progress) move() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved = time.Now()
}

// forgive does not count so much of the time up to now.
func (p *progress) forgive(lost time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved = p.moved.Add(lost); p.moved.After(now) {
		p.moved = now
	}
}

// idle returns what is being done, and for how long it has not moved.
func (p *progress) idle(now time.Time) (string, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step, now.Sub(p.moved)
}

// stallChecks is how often, in the time that the end of a job may stand still, it is looked at.
const stallChecks = 8

// endWatch sees to it that the end of the job goes on.
type endWatch struct {
	*progress
	// limit is how long the end may stand still, due when that is checked next.
	limit time.Duration
	timer *time.Timer
	due   time.Time
	// hang is what does not go on.
	hang *proxyproto.Hang
}

// start begins to watch, with a step.
func (w *endWatch) start(step string) {
	w.begin(step)
	w.again()
}

// again has the end checked again soon.
func (w *endWatch) again() {
	period := w.limit / stallChecks
	w.timer.Reset(period)
	w.due = time.Now().Add(period)
}

// stalled returns the step that has stood still for too long, and for how long; otherwise it is
// checked again.
func (w *endWatch) stalled(now time.Time) (step string, idle time.Duration, stalled bool) {
	// A proxy that does not run cannot go on either.
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

// checkStall ends the job without what does not go on.
func (s *supervisor) checkStall(now time.Time) {
	step, idle, stalled := s.ending.stalled(now)
	if !stalled {
		return
	}
	hang := &proxyproto.Hang{Step: step, IdleMillis: idle.Milliseconds(), Processes: s.hanging()}
	complain(errors.New(hang.String()))
	switch {
	case s.conclusion.result != nil:
		// Only to keep the result hangs, which the agent keeps too.
		s.tell()
	default:
		s.giveUp(hang)
	}
}

// giveUp ends a job whose end hangs. What hangs may go on one day: what was not kept by then
// is not kept any more.
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

// hanging are the processes of the job that are left, and the proxy itself if it hangs in
// the kernel.
func (s *supervisor) hanging() []proxyproto.HungProcess {
	var list []proxyproto.HungProcess
	if s.gone != nil {
		processes, err := s.inside.processes()
		complain(err)
		for _, process := range processes {
			list = append(list, proxyproto.HungProcess{Identity: process.Identity, Name: process.Name, Wait: waitingIn(process.Pid)})
		}
	}
	if wait := waitingIn(s.self.Pid); wait != "" {
		list = append(list, proxyproto.HungProcess{Identity: s.self, Name: "weir-jobproxy", Wait: wait})
	}
	return list[:min(len(list), biggest)]
}

// waitingIn says where in the kernel a thread of a process waits that no signal wakes, as
// far as the kernel tells; empty: there is none.
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
