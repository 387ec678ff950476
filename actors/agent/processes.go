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
	// Start starts a job's processes. An error means that none was started.
	Start(ctx context.Context, spec runner.JobSpec) (Run, error)
	// Left returns the jobs that an earlier agent process left, running or ended, by id;
	// Discard ends and removes one of those jobs, or what is left of one that was not started.
	Left() map[string]Run
	Discard(job string) error
	// RenewAll extends the lease of all jobs until the given time since the boot of the machine.
	RenewAll(until time.Duration)
	// MeasureGrown has the jobs measured whose memory has changed while they were at rest.
	MeasureGrown()
	// ReadOutput returns a part of "stdout" or "stderr" of a job.
	ReadOutput(job, stream string, offset, limit int64) (runner.OutputPart, error)
	// ReadFile returns a part of a file in a running job's workspace, or some entries of a folder.
	ReadFile(job, path string, offset, limit int64) (runner.FilePart, error)
	// ReadKept does so with a file or folder that was kept of a job of a user, or below one.
	ReadKept(kept, user, group, path string, offset, limit int64) (runner.FilePart, error)
	// Exec, ExecInput and ExecOutput run a command beside a job's own: see runner.Runner.
	Exec(runner.Command) error
	ExecInput(runner.SessionKey, runner.SessionInput) (next int64, err error)
	ExecOutput(ctx context.Context, key runner.SessionKey, offset int64, limit int) (runner.SessionOutput, error)
}

// Run is a job with processes.
type Run interface {
	// Events returns the job's events. The channel is closed after runner.Exited, or when the
	// agent leaves the job running.
	Events() <-chan runner.Event
	// Stop ends the job's processes after grace.
	Stop(reason string, grace time.Duration) error
	// Interrupt asks the processes to end by themselves, within a grace period.
	Interrupt(runner.Interruption) error
	// Probe runs a program as a process of the job and returns nil if it exits with 0 in time.
	Probe(ctx context.Context, argv []string, timeout time.Duration) error
	// Discovery returns the listener for the job's discovery requests; nil: it has none. It is
	// closed when the job ends or the agent leaves the job running.
	Discovery() net.Listener
	// Release removes the job's leftovers, except its output.
	Release() error
}

// FromRunner returns Processes that use a runner.
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

// bootOf identifies the boot of the machine; empty: unknown.
func bootOf() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// OpenRunner opens the runner of an agent's jobs in the agent's state folder, and adopts the jobs
// that an earlier agent process left. proxy is the path of the weir-jobproxy program. caveat names
// the guarantees that this machine cannot give, for Config.Caveat.
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
	c.Users, c.Hidden = cfg.users(), filepath.Dir(root)
	c.Output = runner.OutputLimits{Stdout: cfg.MaxOutput, Stderr: cfg.MaxOutput}
	c.Logger = cfg.Logger
	if r, err = runner.Open(c); err != nil {
		return nil, "", err
	}
	return r, r.Shortfall(), nil
}

// groupName names the control groups of a node's jobs. The name survives restarts of the agent,
// and differs between nodes of the same name in different clusters on this machine.
func groupName(node, root string) string {
	sum := sha256.Sum256([]byte(root))
	return node + "-" + hex.EncodeToString(sum[:4])
}

// MeasureResources returns this machine's resources for jobs: its cores, nine tenths of its memory
// (the rest is for the system and the agent), and four user slots per core, so that jobs of a
// quarter of a core can fill the machine.
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
