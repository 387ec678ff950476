package agent

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner"
	"weir/cluster/clock"
)

// playProcesses are those of an agent that is killed at a moment that a test has chosen.
type playProcesses struct {
	Processes
	deaf []string
	mu   sync.Mutex
}

// RenewAll implements Processes.
func (p *playProcesses) RenewAll(until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Processes.RenewAll(until)
}

// renewAndDie gives all jobs a lease for the last time.
func (p *playProcesses) renewAndDie(lease time.Duration) {
	p.mu.Lock()
	p.Processes.RenewAll(clock.Boot() + lease)
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

// Start implements Processes.
func (p *playProcesses) Start(ctx context.Context, spec runner.JobSpec) (Run, error) {
	run, err := p.Processes.Start(ctx, spec)
	if err == nil && slices.Contains(p.deaf, spec.ID) {
		run = deafTo{run}
	}
	return run, err
}

// deafTo is a job of whose end nobody hears.
type deafTo struct{ Run }

// Events implements Run.
func (r deafTo) Events() <-chan runner.Event {
	events := make(chan runner.Event)
	go func() {
		for event := range r.Run.Events() {
			if _, over := event.(runner.Exited); !over {
				events <- event
			}
		}
	}()
	return events
}
