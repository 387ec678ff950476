package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
	"weir/messages/actorpb"
	"weir/scheduling/resource"
)

// Config says which node an agent speaks for and how.
type Config struct {
	// Node is the node's name, as in the agent's certificate.
	Node string
	// Incarnation identifies this process to the agent's Remote: random, not 0, new at each
	// start. The node's own incarnation, which outlives processes, is in StateDir.
	Incarnation uint64
	// Resources are the node's resources for jobs. MeasureResources measures them.
	Resources resource.Amounts
	// Tags say what kind of node it is.
	Tags []string
	// Version is the software's version. Caveat names the guarantees that this node cannot give.
	// Both are for people.
	Version, Caveat string
	// Host is the name or address at which jobs on other machines reach the jobs of this node.
	// The caller sets it, to the hostname by default.
	Host string
	// Ports are reserved for jobs: nothing else on this machine may use them. Default: none.
	Ports Ports
	// Seeds are the first replicas to ask. The agent learns of others from them and saves them
	// in StateDir.
	Seeds []Replica
	// StateDir is the agent's folder. It is made if missing.
	StateDir string
	// Revocations are those that the agent keeps, from OpenRevocations; nil: it keeps none.
	Revocations *Revocations
	// Credentials returns what the agent holds of the cluster's certificates, for the leader to
	// know; nil: it has none.
	Credentials func() *actorpb.HeldCredentials
	// MaxOutput is how much of a job's stdout, and of its stderr, is kept, in bytes. Default 5
	// MiB: what users of such systems are used to.
	MaxOutput int64
	// MinFree is the free space that the disk of StateDir must have before new jobs are accepted,
	// in bytes; 0: no minimum. Default 64 MiB: several times the output that is kept of a job.
	MinFree int64
	// MemoryWatermark is how much of Resources' memory should stay free, in bytes. With less,
	// jobs above their memory reserve are stopped. Default 32 MiB: about what jobs allocate
	// between two measurements, so that jobs within their reserves do not run short.
	MemoryWatermark int64
	// MemoryOverdraftTimeout is how long jobs within their reserves may together use more
	// memory than the node has, before the youngest is stopped. Default 5 min: the node was
	// overcommitted, which may pass when other jobs end.
	MemoryOverdraftTimeout time.Duration
	// FileCache is the folder of the cache of job files; empty: one in StateDir. FileCacheSize
	// bounds the cache, in bytes. Default 10 GiB: several sets of models or tools.
	FileCache     string
	FileCacheSize int64
	// JobUser is the user that runs jobs whose task names none, as user or user:group, by name
	// or number. If it is empty, an agent that is root gives each job one of JobUIDs, and another
	// agent runs jobs as its own user.
	JobUser string
	// JobUIDs are the user ids for jobs of an agent that is root. Default: runner.DefaultUIDs.
	JobUIDs runner.UIDs
	// AllowRootJobs permits jobs that are root or as good as root, and isolation none, on an agent
	// that is root.
	AllowRootJobs bool
	// JobEndTimeout is how long the end of a job may make no progress, for example when the
	// file system for its output hangs, and how long its start may wait for the disk of
	// StateDir. Default 5 min: longer than the retries of an object store that does not answer.
	JobEndTimeout time.Duration
	// MaxPids is how many processes and threads a job may have; the runner allows fewer on machines that can
	// have few. Default 32768: no
	// sane job has more, and a fork bomb ends there.
	MaxPids int
	// Timing holds timeouts and pauses. Default: DefaultTiming.
	Timing Timing
	// Logger receives messages for operators.
	Logger *slog.Logger

	// machine measures the machine's memory. Default: from the kernel.
	machine func() (Machine, error)
	// leases is the clock of leases; the zero value is that of the boot.
	leases leaseClock
	// slow wraps the journal, for tests. Default: no wrapper.
	slow func(records) records
}

// Timing holds the agent's timeouts and pauses. The leader sets the heartbeat period and the
// lease, and may change them with each answer.
type Timing struct {
	// RegisterTimeout bounds the wait for the answer to a registration, or the last heartbeat period if that is longer: a
	// new leader hears many nodes at once then, and asking it again makes it no faster. Default 2 s: it waits for a commit.
	RegisterTimeout time.Duration
	// HeartbeatTimeout bounds the wait for the answer to a heartbeat, or the heartbeat period if that is longer. After
	// it, the agent looks for the leader again. Default 1 s: a leader answers from memory, and two more tries fit
	// into a lease.
	HeartbeatTimeout time.Duration
	// HeartbeatGap is the least time between two heartbeats, or a twentieth of the heartbeat period if that is
	// longer: the leader has many nodes then. Default 50 ms: jobs that end together share one, and nobody feels the delay.
	HeartbeatGap time.Duration
	// SeekMin and SeekMax bound the pause after every replica failed to register the agent. Agents of a large cluster
	// pause for longer: see Session.
	// Default 100 ms and 1 s: about as long as an election.
	SeekMin, SeekMax time.Duration
	// SlowRetry is the pause after a rejection without a retry time, whose cause an operator has to
	// fix. The causes of other rejections pass within SeekMax. Default 10 s: soon enough after the
	// fix, and the log stays readable.
	SlowRetry time.Duration
	// AskTimeout bounds the wait for a controller's answer. Default 5 s: it may
	// wait for a commit.
	AskTimeout time.Duration
	// ReportMin and ReportMax bound the pause before a controller is asked again.
	// Default 100 ms and 2 s.
	ReportMin, ReportMax time.Duration
	// SpecPatience is how long a job may wait for its spec before it is aborted. Default 1 min:
	// by then the operations of a lost replica have another controller.
	SpecPatience time.Duration
	// FaultPause delays the report of a job that the node failed to run. Default 1 s: the
	// cookie may be scheduled here again at once, and a broken node should not flood the raft
	// log.
	FaultPause time.Duration
	// CloseGrace is the time between SIGTERM and SIGKILL for jobs of an agent that is closing.
	// Default 1 s.
	CloseGrace time.Duration
	// CloseTimeout bounds how long a closing agent keeps reporting results. Default 5 s: the
	// leader finds out by itself about those not reported.
	CloseTimeout time.Duration
}

// DefaultTiming returns the default timeouts and pauses.
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

// DefaultConfig returns a Config with every default set; fields without a default are empty.
func DefaultConfig() Config {
	return Config{
		MaxOutput: 5 << 20, MinFree: 64 << 20, MaxPids: 32768, MemoryWatermark: 32 << 20, MemoryOverdraftTimeout: 5 * time.Minute,
		FileCacheSize: 10 << 30, JobEndTimeout: proxyproto.DefaultEndTimeout, JobUIDs: runner.DefaultUIDs, Timing: DefaultTiming(),
	}
}

// Validate returns an error that says what is wrong with c; nil if c is valid.
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
	case c.FileCacheSize <= 0:
		return fmt.Errorf("file cache of %d bytes: must be more than 0", c.FileCacheSize)
	case c.MemoryWatermark < 0 || c.MemoryWatermark >= r.Memory:
		return fmt.Errorf("memory watermark %d: must not be negative and must be below the node's memory, %d", c.MemoryWatermark, r.Memory)
	case c.MemoryOverdraftTimeout < 0:
		return fmt.Errorf("memory overdraft timeout %v: must not be negative", c.MemoryOverdraftTimeout)
	case c.Logger == nil:
		return errors.New("logger: is nil")
	}
	if err := c.checkUsers(); err != nil {
		return err
	}
	for _, seed := range c.Seeds {
		if _, err := ParseReplica(seed.String()); err != nil {
			return fmt.Errorf("seeds: %w", err)
		}
	}
	return c.Timing.Validate()
}

// jobUser returns the user and group of jobs whose tasks name none.
func (c *Config) jobUser() (user, group string) {
	user, group, _ = strings.Cut(c.JobUser, ":")
	return user, group
}

// runsAs returns the user and group of jobs whose task names these.
func (c *Config) runsAs(user, group string) (string, string) {
	if user != "" {
		return user, group
	}
	user, ofUser := c.jobUser()
	return user, cmp.Or(group, ofUser)
}

// users says as whom jobs may run.
func (c *Config) users() runner.Users {
	users := runner.Users{Root: c.AllowRootJobs}
	if os.Geteuid() == 0 && c.JobUser == "" {
		users.Own = c.JobUIDs
	}
	return users
}

func (c *Config) checkUsers() error {
	if err := runner.CheckDumps(); err != nil {
		return fmt.Errorf("users of jobs: %w", err)
	}
	users := c.users()
	if c.JobUser != "" {
		if _, err := users.Find(c.jobUser()); err != nil {
			return fmt.Errorf("job user %q: %w", c.JobUser, err)
		}
	}
	if users.Own != (runner.UIDs{}) {
		if err := users.Own.CheckFree(); err != nil {
			return fmt.Errorf("job uids: %w", err)
		}
	}
	return nil
}

// SharedUser returns the user that all jobs of this agent run as unless their task names another;
// empty: each has its own.
func (c *Config) SharedUser() string {
	if c.users().Own != (runner.UIDs{}) {
		return ""
	}
	if c.JobUser != "" {
		return c.JobUser
	}
	if self, err := user.Current(); err == nil {
		return self.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// Validate returns an error that names an invalid timeout or pause; nil if all are valid.
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

// maxJobsPerSlot bounds the jobs that a node holds per user slot, including ended ones not yet
// acknowledged.
const maxJobsPerSlot = 10

func (c *Config) maxJobs() int { return maxJobsPerSlot * int(min(c.Resources.UserSlots, 1<<30)) }

// gapPart is the part of the heartbeat period that has to be between two heartbeats: at most twenty times as many as
// without news.
const gapPart = 20

// Gap returns the least time between two heartbeats of a period.
func (t Timing) Gap(period time.Duration) time.Duration {
	return min(max(t.HeartbeatGap, period/gapPart), period)
}
