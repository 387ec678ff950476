package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// Config is what a Runner needs.
type Config struct {
	// Root is the folder for all files of the runner. It is created if missing.
	Root string
	// ProxyPath is the weir-jobproxy program.
	ProxyPath string
	// NodeName names the node's control groups. Each Root needs its own.
	NodeName string
	// Hidden is a folder around Root of which jobs see nothing but what is theirs; empty: Root.
	Hidden string
	// Cgroups is the result of DetectCgroups.
	Cgroups Cgroups
	// Users says as whom jobs may run. Claims is the file that all runners of a machine that have
	// ids in Users.Own use to share them out. Default: MachineClaims.
	Users  Users
	Claims string
	// Output limits the output kept of each job.
	Output OutputLimits
	// Retain limits the output kept of all finished jobs.
	Retain Retain
	// SamplePeriod is the time between two samples of a job. Default 1 s: a sample reads three
	// small files.
	SamplePeriod time.Duration
	// EndTimeout is how long the end of a job may make no progress while its processes are
	// killed and its output files are stored. After that the step is abandoned.
	EndTimeout time.Duration
	// Logger gets the messages for operators.
	Logger *slog.Logger
}

// OutputLimits are in bytes per job. If a stream exceeds the limit, its beginning (up to half the
// limit) and its end are kept: see package output.
type OutputLimits struct {
	Stdout, Stderr int64
}

// Retain says how much output of finished jobs is kept; the jobs that finished
// first are dropped first.
type Retain struct {
	// Bytes limits the output of all finished jobs together.
	Bytes int64
	// Jobs limits the number of finished jobs whose output is kept.
	Jobs int
}

// DefaultConfig returns a Config without the paths, name and logger. It keeps 5 MiB of each stream,
// as comparable systems do, and 1 GiB and 1000 jobs in all: a day's output of most nodes, and too
// little to fill a disk.
func DefaultConfig() Config {
	return Config{
		Output:       OutputLimits{Stdout: 5 << 20, Stderr: 5 << 20},
		Retain:       Retain{Bytes: 1 << 30, Jobs: 1000},
		SamplePeriod: time.Second,
		EndTimeout:   proxyproto.DefaultEndTimeout,
		Claims:       MachineClaims,
	}
}

// Validate returns what is wrong with c, nil if nothing is.
func (c *Config) Validate() error {
	switch {
	case c.Root == "":
		return errors.New("config.Root: is empty")
	case c.ProxyPath == "":
		return errors.New("config.ProxyPath: is empty")
	case c.Output.Stdout < 0 || c.Output.Stderr < 0:
		return errors.New("config.Output: a limit is negative")
	case c.Retain.Bytes < 0 || c.Retain.Jobs < 0:
		return errors.New("config.Retain: a limit is negative")
	case c.SamplePeriod < time.Millisecond:
		return fmt.Errorf("config.SamplePeriod: %v, must be 1ms or more", c.SamplePeriod)
	case c.EndTimeout < time.Millisecond || c.EndTimeout.Milliseconds() > proxyproto.MaxMillis:
		return fmt.Errorf("config.EndTimeout: %v, must be 1ms or more", c.EndTimeout)
	case c.Users.Own != (UIDs{}) && (os.Geteuid() != 0 || c.Claims == ""):
		return errors.New("config.Users: jobs can have users of their own only if the agent is root and config.Claims is set")
	case c.Logger == nil:
		return errors.New("config.Logger: is nil")
	}
	if err := checkName("config.NodeName", c.NodeName); err != nil {
		return err
	}
	info, err := os.Stat(c.ProxyPath)
	if err != nil {
		return fmt.Errorf("config.ProxyPath: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("config.ProxyPath: %s is not an executable", c.ProxyPath)
	}
	return nil
}

// Cgroups says how jobs are held together on this machine.
type Cgroups struct {
	// Node is the control group below which those of jobs are created.
	Node proxyproto.Placement
	// Reason says why there are no groups to use.
	Reason string
}

// DetectCgroups finds out which control groups this machine has and makes the node's
// group. root is "/" except in tests. Without control groups jobs are held together
// as process trees; Shortfall then says which limits that weakens.
func DetectCgroups(root, node string) Cgroups {
	if err := checkName("node", node); err != nil {
		return Cgroups{Reason: err.Error()}
	}
	place, err := cgroup.Detect(root, node)
	if err != nil {
		return Cgroups{Reason: err.Error()}
	}
	return Cgroups{Node: place}
}

// Shortfall describes the limits that this machine cannot enforce for lack of
// control groups; empty: it can enforce all.
func (c Cgroups) Shortfall() string {
	if !c.Node.None() {
		return ""
	}
	return "no control groups (" + c.Reason + "): cpu and pids limits are not enforced; " +
		"memory limits are enforced by sampling, so a job may exceed its limit briefly; " +
		"if a job's proxy is killed, a detached process that has cleared its environment may escape"
}

// ErrBadName is returned, wrapped, for an id that is not safe as a file name.
var ErrBadName = errors.New("bad name")

// maxName limits names, in bytes: with a suffix they stay below the 255 of a file name.
const maxName = 200

// checkName accepts letters, digits, '_', '-' and '.', but no leading dot.
func checkName(what, name string) error {
	if name == "" || len(name) > maxName || name[0] == '.' {
		return fmt.Errorf("%s %.60q: %w: must have 1 to %d characters and not begin with a dot", what, name, ErrBadName, maxName)
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	if rest := strings.Trim(name, allowed); rest != "" {
		return fmt.Errorf("%s %.60q: %w: has %q; letters, digits, '_', '-' and '.' are allowed", what, name, ErrBadName, []rune(rest)[0])
	}
	return nil
}

// layout makes the paths below Config.Root.
type layout struct{ root string }

func (l layout) lock() string         { return filepath.Join(l.root, "lock") }
func (l layout) jobs() string         { return filepath.Join(l.root, "jobs") }
func (l layout) spares() string       { return filepath.Join(l.root, "spare") }
func (l layout) job(id string) string { return filepath.Join(l.root, "jobs", id) }
func (l layout) notice(id string) string {
	return filepath.Join(l.workspace(id), ".weir", "notice.json")
}
func (l layout) workspace(id string) string { return l.file(id, proxyproto.WorkspaceFolder) }
func (l layout) outputs() string            { return filepath.Join(l.root, "output") }
func (l layout) output(id string) string    { return filepath.Join(l.root, "output", id) }
func (l layout) file(id, n string) string   { return filepath.Join(l.root, "jobs", id, n) }
