package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"weir/actors/agent/runner"
	"weir/scheduling/resource"
)

// ErrNoLease is returned for a job that cannot start because the node's lease
// has run out.
var ErrNoLease = errors.New("the node's lease has expired")

// Processes runs jobs. Its methods block and may be called by several goroutines.
type Processes interface {
	// Start starts a job's processes. An error means that there are none.
	Start(ctx context.Context, spec runner.JobSpec) (Run, error)
	// Left are the jobs that an earlier process of the agent left, running or ended, by
	// their ids; Discard ends and drops one.
	Left() map[string]Run
	Discard(job string) error
	// RenewAll lets all jobs live until then.
	RenewAll(until time.Time)
	// ReadOutput returns a part of "stdout" or "stderr" of a job.
	ReadOutput(job, stream string, offset, limit int64) (runner.OutputPart, error)
}

// Run is a job with processes.
type Run interface {
	// Events tells what happens to the job; it is closed after runner.Exited, or
	// when the job is left to itself.
	Events() <-chan runner.Event
	// Stop ends the job's processes after grace.
	Stop(reason string, grace time.Duration) error
	// Interrupt asks them to end by themselves, within a time.
	Interrupt(runner.Interruption) error
	// Probe runs a program as one of them and returns nil if it exits with 0 in time.
	Probe(ctx context.Context, argv []string, timeout time.Duration) error
	// Discovery is where the job asks about others and itself; nil: nowhere. It is
	// closed when the job ends or is left to itself.
	Discovery() net.Listener
	// Release removes what the job left, but its output.
	Release() error
}

// FromRunner returns the processes of a runner.
func FromRunner(r *runner.Runner) Processes { return processes{r} }

type processes struct{ *runner.Runner }

// Start implements Processes.
func (p processes) Start(ctx context.Context, spec runner.JobSpec) (Run, error) {
	job, err := p.Runner.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return job, nil
}

// Left implements Processes.
func (p processes) Left() map[string]Run {
	left := map[string]Run{}
	for _, job := range p.Jobs() {
		left[job.ID()] = job
	}
	return left
}

// bootOf tells the boots of the machine apart. Empty: it cannot be told.
func bootOf() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// OpenRunner opens the runner of an agent's jobs in its state folder, with the jobs
// that an earlier process of the agent has left. proxy is the weir-jobproxy program.
// caveat says what this machine cannot promise; it belongs into Config.Caveat.
func OpenRunner(cfg Config, proxy string) (r *runner.Runner, caveat string, err error) {
	root, err := filepath.Abs(filepath.Join(cfg.StateDir, "jobs"))
	if err != nil {
		return nil, "", fmt.Errorf("open runner of node %q: %w", cfg.Node, err)
	}
	if _, err := openFolder(cfg.StateDir, cfg.JobUser != ""); err != nil {
		return nil, "", fmt.Errorf("open runner of node %q: %w", cfg.Node, err)
	}
	c := runner.DefaultConfig()
	c.Root = root
	c.ProxyPath = proxy
	c.NodeName = groupName(cfg.Node, root)
	c.Cgroups = runner.DetectCgroups("/", c.NodeName)
	c.SamplePeriod, c.EndTimeout = memoryPeriod, cfg.JobEndTimeout
	c.Output = runner.OutputLimits{Stdout: cfg.MaxOutput, Stderr: cfg.MaxOutput}
	c.Logger = cfg.Logger
	if r, err = runner.Open(c); err != nil {
		return nil, "", err
	}
	return r, r.Shortfall(), nil
}

// groupName names the control groups of a node's jobs: the same in each life of the
// agent, and another for a node of the same name of another cluster on this
// machine.
func groupName(node, root string) string {
	sum := sha256.Sum256([]byte(root))
	return node + "-" + hex.EncodeToString(sum[:4])
}

// MeasureResources returns what this machine has for jobs: its cores, nine tenths
// of its memory, for the system and the agent need some, and four user slots a
// core, so that jobs of a quarter of a core fill it.
func MeasureResources() (resource.Amounts, error) {
	machine, err := runner.Machine("/")
	if err != nil {
		return resource.Amounts{}, fmt.Errorf("measure resources: %w", err)
	}
	return resource.Amounts{
		UserSlots: int64(4 * max(1, runtime.NumCPU())),
		CPU:       resource.Cores(machine.CPU),
		Memory:    machine.Memory / 10 * 9,
	}, nil
}
