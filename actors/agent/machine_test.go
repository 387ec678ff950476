package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/output"
	"weir/actors/agent/runner/proxyproto"
)

// machine has processes that do as the test says.
type machine struct {
	mu      sync.Mutex
	runs    map[string]*fakeRun
	started map[string]int
	specs   map[string]runner.JobSpec
	// workspaces is a folder with those of jobs.
	workspaces string
	failure    error
	// frozen holds whoever starts a job until it is closed; nil: nobody.
	frozen chan struct{}
	// removing holds whoever removes what is left of a job likewise.
	removing chan struct{}
	renewals []time.Duration
	// discarded are jobs that the agent did not know.
	discarded []string
}

type fakeRun struct {
	machine  *machine
	id       string
	events   chan runner.Event
	stops    []string
	ends     bool // When it is told to stop.
	broken   int  // So many times it cannot be told anything, or released.
	over     bool
	last     runner.Exited
	released bool
	// notice is the last that it was given; interrupted: it was told to leave in time.
	notice      string
	interrupted bool
}

// Start implements Processes.
func (m *machine) Start(_ context.Context, spec runner.JobSpec) (Run, error) {
	m.mu.Lock()
	frozen := m.frozen
	m.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started[spec.ID]++
	m.specs[spec.ID] = spec
	if m.failure != nil {
		return nil, m.failure
	}
	if spec.Furnish != nil {
		workspace := filepath.Join(m.workspaces, spec.ID)
		if err := errors.Join(os.Mkdir(workspace, 0o700), spec.Furnish(workspace)); err != nil {
			return nil, err
		}
	}
	r := &fakeRun{machine: m, id: spec.ID, events: make(chan runner.Event, 16), ends: true}
	m.runs[spec.ID] = r
	r.events <- runner.Started{JobID: spec.ID, Pid: 42, Time: time.Now()}
	return r, nil
}

// Left implements Processes.
func (m *machine) Left() map[string]Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := map[string]Run{}
	for id, r := range m.runs {
		left[id] = r
	}
	return left
}

// Discard implements Processes.
func (m *machine) Discard(job string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if run := m.runs[job]; run != nil {
		run.end("stopped", "discarded", -1)
		delete(m.runs, job)
		m.discarded = append(m.discarded, job)
	}
	return nil
}

// MeasureGrown implements Processes.
func (m *machine) MeasureGrown() {}

// RenewAll implements Processes.
func (m *machine) RenewAll(until time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := until - bubbleTime(); left > 0 {
		m.renewals = append(m.renewals, left)
	}
}

// ReadFile implements Processes: no job has files.
func (m *machine) ReadFile(string, string, int64, int64) (runner.FilePart, error) {
	return runner.FilePart{}, runner.ErrNoFile
}

// ReadKept implements Processes: nothing is kept.
func (m *machine) ReadKept(string, string, string, string, int64, int64) (runner.FilePart, error) {
	return runner.FilePart{}, runner.ErrNoFile
}

// Exec implements Processes: no command runs.
func (m *machine) Exec(runner.Command) error { return runner.ErrNoSession }

// ExecInput implements Processes.
func (m *machine) ExecInput(runner.SessionKey, runner.SessionInput) (int64, error) {
	return 0, runner.ErrNoSession
}

// ExecOutput implements Processes.
func (m *machine) ExecOutput(context.Context, runner.SessionKey, int64, int) (runner.SessionOutput, error) {
	return runner.SessionOutput{}, runner.ErrNoSession
}

// ReadOutput implements Processes.
func (m *machine) ReadOutput(job, stream string, offset, limit int64) (runner.OutputPart, error) {
	switch {
	case job == "gone":
		return runner.OutputPart{}, runner.ErrOutputGone
	case stream != "stderr":
		return runner.OutputPart{}, errors.New("no such stream")
	case offset < 0:
		return runner.OutputPart{Part: output.Part{Data: []byte("bo"), Next: 2, Total: 4}}, nil
	}
	return runner.OutputPart{Part: output.Part{Data: []byte("om"), Next: 4, Total: 4}, End: limit > 0}, nil
}

// Events implements Run.
func (r *fakeRun) Events() <-chan runner.Event { return r.events }

// Stop implements Run.
func (r *fakeRun) Stop(reason string, grace time.Duration) error {
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	if r.broken > 0 {
		r.broken--
		return runner.ErrUnreachable
	}
	r.stops = append(r.stops, fmt.Sprint(reason, " ", grace))
	if r.ends {
		r.end("stopped", reason, -1)
	}
	return nil
}

// Interrupt implements Run.
func (r *fakeRun) Interrupt(i runner.Interruption) error {
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	if r.broken > 0 {
		r.broken--
		return runner.ErrUnreachable
	}
	r.stops = append(r.stops, fmt.Sprint(i.Signal, " ", i.Reason, " ", i.Grace))
	r.notice = string(i.Notice)
	return nil
}

// Discovery implements Run.
func (r *fakeRun) Probe(context.Context, []string, time.Duration) error { return nil }

func (r *fakeRun) Discovery() net.Listener { return nil }

// Release implements Run.
func (r *fakeRun) Release() error {
	r.machine.mu.Lock()
	removing := r.machine.removing
	r.machine.mu.Unlock()
	if removing != nil {
		<-removing
	}
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	if r.broken > 0 {
		r.broken--
		return errors.New("cannot be removed")
	}
	r.released = true
	return nil
}

// leave does what the end of an agent's process does to a job that goes on: nobody
// hears of it until it is adopted.
func (m *machine) leave() {
	m.set(func() {
		for id, r := range m.runs {
			if r.released {
				delete(m.runs, id)
				continue
			}
			next := &fakeRun{machine: m, id: id, events: make(chan runner.Event, 16), ends: true}
			if r.over {
				next.over = true
				next.events <- r.last
				close(next.events)
			} else {
				next.events <- runner.Started{JobID: id, Pid: 42, Time: time.Now()}
				r.over = true
				close(r.events)
			}
			m.runs[id] = next
		}
	})
}

func (r *fakeRun) end(outcome, reason string, code int) {
	if !r.over {
		r.over = true
		e := exited(proxyproto.Outcome(outcome), reason, code)
		e.Result.StartTime, e.Result.EndTime, e.Result.Interrupted = time.Now(), time.Now(), r.interrupted
		r.last = e
		r.events <- e
		close(r.events)
	}
}

func (m *machine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func exited(outcome proxyproto.Outcome, reason string, code int) runner.Exited {
	return runner.Exited{JobID: "j", Result: &runner.Result{Outcome: outcome, Reason: reason, ExitCode: code}}
}
