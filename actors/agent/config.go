package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/resource"
)

// Config says which node an agent speaks for and how.
type Config struct {
	// Node is the node's name, as in the agent's certificate.
	Node string
	// Incarnation tells the agent's processes apart for its Remote: random, not 0,
	// new at each start. The node's life, which outlives them, is in StateDir.
	Incarnation uint64
	// Resources are what the node has for jobs. MeasureResources finds them out.
	Resources resource.Amounts
	// Tags say what kind of node it is.
	Tags []string
	// Version is that of the software, Caveat what the node cannot promise: both for
	// people.
	Version, Caveat string
	// Host is where jobs of other machines reach those of this one: a name or an
	// address, of the machine by default.
	Host string
	// Ports are for jobs: nothing else of this machine uses them. Default: none.
	Ports Ports
	// Seeds are replicas to begin with. Others are learned from them and
	// remembered in StateDir.
	Seeds []Replica
	// StateDir is the agent's folder. It is made if missing.
	StateDir string
	// MaxOutput is how much is kept of each of a job's stdout and stderr, in bytes.
	// Default 5 MiB: what users of such systems are used to.
	MaxOutput int64
	// MinFree is how much space the disk of StateDir must have left for new jobs to be
	// taken, in bytes; 0: any. Default 64 MiB: what a job keeps of its output, some
	// times over.
	MinFree int64
	// MemoryWatermark is how much of Resources' memory is to stay free, in bytes: with
	// less, jobs that use more than was reserved for them are stopped. Default 32 MiB:
	// what jobs take between two looks, so that those which keep within their reserves do
	// not come short of it.
	MemoryWatermark int64
	// MemoryOverdraftTimeout is how long jobs that keep within their reserves may use more
	// than the node has, before the youngest is stopped. Default 5 min: what was reserved
	// for them was more than there is, which passes when some end.
	MemoryOverdraftTimeout time.Duration
	// FileCache is the folder of files that jobs find in their workspaces; empty: one in
	// StateDir. FileCacheSize is how much they may take, in bytes. Default 10 GiB: some
	// sets of models or tools, on disks of today.
	FileCache     string
	FileCacheSize int64
	// JobUser is who the processes of jobs are whose tasks do not say, as user or
	// user:group, by name or number; empty: who the agent is. If it is not root, no job is.
	JobUser string
	// JobEndTimeout is how long the end of a job may stand still, as when a file system hangs on
	// which its output is to be kept, and how long its start may wait for the disk of StateDir.
	// Default 5 min: it is longer than stores are asked again.
	JobEndTimeout time.Duration
	// MaxPids is how many processes and threads a job may have. Default 32768: no
	// sane job has more, and a fork bomb ends there.
	MaxPids int
	// Timing is how long things take. Default: DefaultTiming.
	Timing Timing
	// Logger takes what an operator cares about.
	Logger *slog.Logger

	// machine measures the memory of the machine. Default: as the kernel says.
	machine func() (Machine, error)
	// slow is put before the journal. Default: nothing.
	slow func(records) records
}

// Timing is how long an agent waits for what. Heartbeat period and lease are the
// leader's to say.
type Timing struct {
	// RegisterTimeout bounds the wait for the answer to a registration. Default
	// 2 s: it waits for a commit.
	RegisterTimeout time.Duration
	// HeartbeatTimeout bounds the wait for the answer to a heartbeat; then the
	// leader is sought anew. Default 1 s: it is answered from memory, and two
	// more tries fit into a lease.
	HeartbeatTimeout time.Duration
	// HeartbeatGap is the least time between two heartbeats. Default 50 ms: jobs
	// that end together share one, and nobody feels the delay.
	HeartbeatGap time.Duration
	// SeekMin and SeekMax bound the pause after no replica would register the
	// agent. Default 100 ms and 1 s: an election takes about as long.
	SeekMin, SeekMax time.Duration
	// SlowRetry is the pause after a refusal that people have to mend, as its lack of a
	// time to try again says. All others are over within SeekMax. Default 10 s: soon
	// enough after they have, and the log stays readable.
	SlowRetry time.Duration
	// AskTimeout bounds the wait for a controller's answer. Default 5 s: it may
	// wait for a commit.
	AskTimeout time.Duration
	// ReportMin and ReportMax bound the pause before a controller is asked again.
	// Default 100 ms and 2 s.
	ReportMin, ReportMax time.Duration
	// SpecPatience is how long a job may wait for its spec before it is given up.
	// Default 1 min: operations of a lost replica have another by then.
	SpecPatience time.Duration
	// FaultPause is how long the end of a job that the node failed to run is held
	// back. Default 1 s: its cookie may come right back, and a broken node should
	// not keep the log busy.
	FaultPause time.Duration
	// CloseGrace is what jobs have between SIGTERM and the kill when the agent is
	// closed. Default 1 s.
	CloseGrace time.Duration
	// CloseTimeout bounds how long a closing agent goes on telling results.
	// Default 5 s: what it cannot tell, the leader finds out.
	CloseTimeout time.Duration
}

// DefaultTiming returns the waits that fit unless measured otherwise.
func DefaultTiming() Timing {
	return Timing{
		RegisterTimeout:  2 * time.Second,
		HeartbeatTimeout: time.Second,
		HeartbeatGap:     50 * time.Millisecond,
		SeekMin:          100 * time.Millisecond,
		SeekMax:          time.Second,
		SlowRetry:        10 * time.Second,
		AskTimeout:       5 * time.Second,
		ReportMin:        100 * time.Millisecond,
		ReportMax:        2 * time.Second,
		SpecPatience:     time.Minute,
		FaultPause:       time.Second,
		CloseGrace:       time.Second,
		CloseTimeout:     5 * time.Second,
	}
}

// DefaultConfig returns a Config that lacks what has no default.
func DefaultConfig() Config {
	return Config{
		MaxOutput: 5 << 20, MinFree: 64 << 20, MaxPids: 32768, MemoryWatermark: 32 << 20, MemoryOverdraftTimeout: 5 * time.Minute,
		FileCacheSize: 10 << 30, JobEndTimeout: proxyproto.DefaultEndTimeout, Timing: DefaultTiming(),
	}
}

// Validate says what is wrong with c, if something is.
func (c *Config) Validate() error {
	r := c.Resources
	switch {
	case c.Node == "":
		return errors.New("node: is empty; give the name in its certificate")
	case c.Incarnation == 0:
		return errors.New("incarnation: is 0; it must be random and new at each start")
	case r.Validate() != nil:
		return fmt.Errorf("resources: %w", r.Validate())
	case r.UserSlots == 0:
		return errors.New("resources: user_slots is 0, so no job can run; set it to the number of jobs the node may run at once")
	case r.CPU == 0 || r.Memory == 0:
		return fmt.Errorf("resources: cpu is %s and memory is %d: both must be more than 0", r.CPU, r.Memory)
	case c.Ports.Validate() != nil:
		return c.Ports.Validate()
	case c.StateDir == "":
		return errors.New("state folder: is empty; name a folder that survives restarts")
	case c.MaxOutput < 0:
		return fmt.Errorf("output limit %d: must not be negative", c.MaxOutput)
	case c.MinFree < 0:
		return fmt.Errorf("minimum free space %d: must not be negative", c.MinFree)
	case c.JobEndTimeout < time.Second || c.JobEndTimeout.Milliseconds() > proxyproto.MaxMillis:
		return fmt.Errorf("job end timeout %v: must be at least 1s, and not more than ten years", c.JobEndTimeout)
	case c.MaxPids <= 0:
		return fmt.Errorf("process limit per job %d: must be more than 0", c.MaxPids)
	case c.checkJobUser() != nil:
		return fmt.Errorf("job user %q: %w", c.JobUser, c.checkJobUser())
	case c.FileCacheSize <= 0:
		return fmt.Errorf("file cache of %d bytes: must be more than 0", c.FileCacheSize)
	case c.MemoryWatermark < 0 || c.MemoryWatermark >= r.Memory:
		return fmt.Errorf("memory watermark %d: must not be negative and must be below the node's memory, %d", c.MemoryWatermark, r.Memory)
	case c.MemoryOverdraftTimeout < 0:
		return fmt.Errorf("memory overdraft timeout %v: must not be negative", c.MemoryOverdraftTimeout)
	case c.Logger == nil:
		return errors.New("logger: is nil")
	}
	for _, seed := range c.Seeds {
		if _, err := ParseReplica(seed.String()); err != nil {
			return fmt.Errorf("seeds: %w", err)
		}
	}
	return c.Timing.Validate()
}

// checkJobUser says why jobs cannot be who they are to be.
func (c *Config) checkJobUser() error {
	_, err := runner.FindUser(c.jobUser())
	return err
}

// jobUser is who jobs are whose tasks name nobody.
func (c *Config) jobUser() (user, group string) {
	user, group, _ = strings.Cut(c.JobUser, ":")
	return user, group
}

// findUser finds who a job is to be; nil: who the agent is. Where the node's own jobs are
// not root, none is.
func (c *Config) findUser(user, group string) (*proxyproto.User, error) {
	found, err := runner.FindUser(user, group)
	if err != nil {
		return nil, err
	}
	usual, err := runner.FindUser(c.jobUser())
	if err != nil {
		return nil, err
	}
	if usual == nil || usual.UID == 0 {
		return found, nil
	}
	if found == nil || found.UID == 0 || found.GID == 0 && usual.GID != 0 {
		return nil, fmt.Errorf("user %q, group %q: jobs on this node cannot run as root or in its group (--job-user %s): name another user or group, or none", user, group, c.JobUser)
	}
	return found, nil
}

// Validate says which wait cannot work, if one cannot.
func (t Timing) Validate() error {
	waits := []struct {
		name string
		wait time.Duration
	}{
		{"RegisterTimeout", t.RegisterTimeout}, {"HeartbeatTimeout", t.HeartbeatTimeout}, {"HeartbeatGap", t.HeartbeatGap},
		{"SeekMin", t.SeekMin}, {"SeekMax", t.SeekMax}, {"SlowRetry", t.SlowRetry}, {"AskTimeout", t.AskTimeout},
		{"ReportMin", t.ReportMin}, {"ReportMax", t.ReportMax}, {"SpecPatience", t.SpecPatience}, {"FaultPause", t.FaultPause}, {"CloseTimeout", t.CloseTimeout},
	}
	for _, w := range waits {
		if w.wait < time.Millisecond {
			return fmt.Errorf("timing: %s is %v: must be at least 1ms", w.name, w.wait)
		}
	}
	switch {
	case t.SeekMax < t.SeekMin:
		return errors.New("timing: SeekMax is below SeekMin")
	case t.ReportMax < t.ReportMin:
		return errors.New("timing: ReportMax is below ReportMin")
	case t.CloseGrace < 0 || t.CloseGrace >= t.CloseTimeout:
		return fmt.Errorf("timing: CloseGrace is %v: must not be negative and must be below CloseTimeout, %v", t.CloseGrace, t.CloseTimeout)
	}
	return nil
}

// maxJobsPerSlot bounds the jobs that a node holds, ended ones that nobody has
// acknowledged included.
const maxJobsPerSlot = 10

func (c *Config) maxJobs() int { return maxJobsPerSlot * int(min(c.Resources.UserSlots, 1<<30)) }
