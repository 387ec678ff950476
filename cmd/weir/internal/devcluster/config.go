package devcluster

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"
)

// Config describes a cluster on this machine.
type Config struct {
	// Dir is the folder that holds everything. It is created if missing, and removed at the
	// end if nothing else is in it.
	Dir string
	// Replicas is how many replicas run: 1, 3 or 5.
	Replicas int
	// Agents is how many agents run: 0 to 64.
	Agents int
	// Insecure turns off certificates and encryption.
	Insecure bool
	// Detached makes the processes outlive the one that started them.
	Detached bool
	// Timing is the replicas' timing, default or fast. Default: default, for machines whose
	// processors are shared with other work.
	Timing string
	// LogLevel is the log level of all processes. Default: info.
	LogLevel string
	// ReplicaArguments are extra arguments of each replica; AgentArguments are those of each agent.
	// They override the arguments that the cluster sets.
	ReplicaArguments, AgentArguments []string
	// NodePrefix is the prefix of the nodes' names; a number follows. Default: n.
	NodePrefix string
	// Network gives each member its own network namespace; nil puts all members at
	// 127.0.0.1.
	Network *Network
	// Share is what each agent has for jobs: see ShareOut.
	Share Share
	// DataRoots are the folders whose files operations may read and write. Default: all files; if
	// this process is root, the folder files in Dir: replicas that are root would overwrite any file.
	DataRoots []string
	// Program is the path of weir; JobProxy is the path of weir-jobproxy.
	Program, JobProxy string
	// ReadyTimeout bounds how long the cluster may take to be ready. Default 1 min: it
	// takes seconds unless the machine is busy.
	ReadyTimeout time.Duration
	// Final returns what to do about a member whose exit code means that a restart does not
	// help; "" if a restart may help.
	Final func(m Member, code int) string
	Ending
}

// Ending says how a cluster is ended.
type Ending struct {
	// StopTimeout is how long a process may take to stop before it is killed.
	// Default 10 s: an agent ends its jobs, a replica hands over leadership.
	StopTimeout time.Duration
	// Sweep ends what a killed agent has left behind.
	Sweep func(member Member) error
	// Preserve is a folder to which the members' files are moved at the end; it must not
	// exist yet. If empty, the files are deleted.
	Preserve string
}

// Access is what a client needs to reach the cluster.
type Access struct {
	// Addresses are the addresses of the replicas, host:port.
	Addresses []string `json:"addresses"`
	// Credentials is the folder of an operator's credentials, empty for plaintext.
	Credentials string `json:"credentials,omitempty"`
}

// Default returns a Config without the paths and functions.
func Default() Config {
	return Config{
		Replicas: 3, Agents: 4, Timing: "default", LogLevel: "info", NodePrefix: "n",
		ReadyTimeout: time.Minute, Ending: Ending{StopTimeout: DefaultStopTimeout},
	}
}

// DefaultStopTimeout is the default of Ending.StopTimeout.
const DefaultStopTimeout = 10 * time.Second

// maxAgents is the maximum number of agents on one machine.
const maxAgents = 64

// Validate returns an error if c is invalid.
func (c *Config) Validate() error {
	switch {
	case !slices.Contains([]int{1, 3, 5}, c.Replicas):
		return fmt.Errorf("replicas: %d, must be 1, 3 or 5: an even number tolerates no more failures than the odd one below it", c.Replicas)
	case c.Agents < 0 || c.Agents > maxAgents:
		return fmt.Errorf("agents: %d, must be 0 to %d", c.Agents, maxAgents)
	case c.NodePrefix == "":
		return errors.New("the prefix of nodes' names is empty")
	case c.Dir == "" || c.Program == "" || c.JobProxy == "":
		return errors.New("a path is empty")
	case c.Sweep == nil:
		return errors.New("a function is nil")
	case c.StopTimeout <= 0 || c.ReadyTimeout <= 0:
		return fmt.Errorf("stop timeout %v, ready timeout %v: must be positive", c.StopTimeout, c.ReadyTimeout)
	case c.Network != nil && c.Detached:
		return errors.New("detached processes have no network of their own")
	case c.Share.CPU <= 0 || c.Share.Memory <= 0 || c.Share.Slots <= 0:
		return fmt.Errorf("share: %+v, must be positive", c.Share)
	}
	return nil
}

// Names returns the names of the members: replicas, then nodes.
func (c *Config) Names() []string {
	var names []string
	for i := range c.Replicas {
		names = append(names, fmt.Sprintf("r%d", i+1))
	}
	for i := range c.Agents {
		names = append(names, fmt.Sprintf("%s%d", c.NodePrefix, i+1))
	}
	return names
}

// host returns the address of a member.
func (c *Config) host(name string) string {
	if c.Network == nil {
		return loopback
	}
	return c.Network.Address(name)
}

const loopback = "127.0.0.1"

// Share is the resources that one agent offers to jobs.
type Share struct {
	// CPU is in cores. Memory is in bytes. Slots is how many jobs can run at once.
	CPU    int
	Memory int64
	Slots  int
}

// least is the smallest CPU and Slots of an agent: with fewer, a small machine would run
// its jobs one by one.
const least = 4

// ShareOut divides a machine evenly among agents. Each gets at least 4 cores and
// 4 slots, even if the machine has fewer cores; jobs then take turns.
func ShareOut(cores float64, memory int64, agents int) Share {
	parts := max(agents, 1)
	cpu := max(int(math.Floor(cores))/parts, least)
	return Share{CPU: cpu, Memory: memory / int64(parts) >> 20 << 20, Slots: cpu}
}

// SettingsFile returns the path of the file in which clients find the cluster of dir.
func SettingsFile(dir string) string { return filepath.Join(dir, "client.yaml") }

// layout returns the paths below Config.Dir.
type layout struct{ root string }

func (l layout) dev() string                 { return filepath.Join(l.root, "dev") }
func (l layout) files() string               { return filepath.Join(l.root, "files") }
func (l layout) record() string              { return filepath.Join(l.dev(), "cluster.json") }
func (l layout) authority() string           { return filepath.Join(l.dev(), "authority") }
func (l layout) operator() string            { return filepath.Join(l.dev(), "operator") }
func (l layout) user(name string) string     { return filepath.Join(l.dev(), "users", name) }
func (l layout) data(name string) string     { return filepath.Join(l.dev(), name, "data") }
func (l layout) identity(name string) string { return filepath.Join(l.dev(), name, "credentials") }
func (l layout) log(name string) string      { return filepath.Join(l.dev(), name, "log") }
