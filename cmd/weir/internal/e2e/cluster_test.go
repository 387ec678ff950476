package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cluster is replicas and agents that a test started.
type cluster struct {
	t testing.TB
	// dir holds everything; jobs write what they witness below it too.
	dir string
	// host is where the replicas are.
	host     string
	launcher *launcher
	// more are flags of replicas.
	more []string
	// clients make calls, by the folder of their credentials.
	clients map[string]*http.Client

	mu        sync.Mutex
	addresses map[string]string
	processes map[string]*process
	logs      []string
}

var replicaNames = []string{"r1", "r2", "r3"}

// newCluster makes a cluster and starts its replicas.
func newCluster(t *testing.T, host string, agents ...string) *cluster {
	t.Helper()
	c := prepareCluster(t, host, agents...)
	for _, name := range replicaNames {
		c.startReplica(name)
	}
	return c
}

// prepareCluster makes the certificates of three replicas at host and of agents.
func prepareCluster(t *testing.T, host string, agents ...string) *cluster {
	t.Helper()
	c := &cluster{
		t: t, dir: t.TempDir(), host: host, launcher: newLauncher(),
		clients: map[string]*http.Client{}, addresses: map[string]string{}, processes: map[string]*process{},
	}
	t.Cleanup(c.close)
	// Jobs, which are other users than this, write what they witness below it. A replica would make the
	// folder of all data for itself alone.
	if err := errors.Join(os.Chmod(filepath.Dir(c.dir), 0o711), os.Chmod(c.dir, 0o711), os.Mkdir(filepath.Dir(c.data("n1")), 0o711), os.Mkdir(c.files(), 0o755)); err != nil {
		t.Fatal(err)
	}
	for i, port := range freePorts(t, host, len(replicaNames)) {
		c.addresses[replicaNames[i]] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	names := make([]string, len(agents))
	for i, agent := range agents {
		names[i] = c.node(agent)
	}
	printed, code := weir(t, "tls", "init", "--dir", c.certs(), "--replica", strings.Join(replicaNames, ","), "--agent", strings.Join(names, ","),
		"--operator", "admin", "--user", "ann", "--hosts", "localhost,"+host)
	if code != 0 {
		t.Fatalf("tls init: exit code %d\n%s", code, printed)
	}
	return c
}

// node returns the name of a node that no other cluster of this machine has.
func (c *cluster) node(agent string) string {
	return fmt.Sprintf("e2e-%d-%s-%s", os.Getpid(), filepath.Base(filepath.Dir(c.dir))[len("Test"):], agent)
}

func (c *cluster) certs(parts ...string) string {
	return filepath.Join(append([]string{c.dir, "certs"}, parts...)...)
}

func (c *cluster) data(name string) string { return filepath.Join(c.dir, "data", name) }

// files is the folder whose files operations may use.
func (c *cluster) files() string { return filepath.Join(c.dir, "files") }

// peers is the list of replicas as flags take it.
func (c *cluster) peers() string {
	var list []string
	for _, name := range replicaNames {
		list = append(list, name+"="+c.addresses[name])
	}
	return strings.Join(list, ",")
}

// lease is that of agents, unless a test says otherwise: processes of a test wait for a
// processor and a disk as long as others want them, and that may be longer than by default.
const lease = 20 * time.Second

// unhurried are flags of replicas that share a machine with all that it does besides: a
// write may take long there, and so may an answer. See TestHungDisk for a disk that takes
// too long, and agentDies for an agent that does.
func unhurried() []string {
	return []string{"--disk-stall", patience.String(), "--lease", lease.String()}
}

// replicaFlags are those of weir server.
func (c *cluster) replicaFlags(name string) []string {
	return slices.Concat([]string{
		"server", "--id", name, "--data-root", c.files(), "--listen", c.addresses[name], "--peers", c.peers(), "--data", c.data(name), "--credentials", c.certs("replica-" + name),
	}, unhurried(), c.more)
}

// agentFlags are those of weir agent, by default with plenty for small jobs, which end
// with it.
func (c *cluster) agentFlags(agent string, more ...string) []string {
	name := c.node(agent)
	return append([]string{
		"agent", "--name", name, "--replicas", c.peers(), "--data", c.data(agent), "--credentials", c.certs("agent-" + name),
		"--cpu", "16", "--memory", "8GiB", "--user-slots", "32", "--max-output", "1MiB", "--on-stop", "end",
	}, more...)
}

func (c *cluster) startReplica(name string) *process {
	c.t.Helper()
	return c.launch(name, c.launcher, c.replicaFlags(name)...)
}

func (c *cluster) startAgent(agent string, more ...string) *process {
	c.t.Helper()
	return c.launch(agent, c.launcher, c.agentFlags(agent, more...)...)
}

// launch starts a process of the cluster, which ends with the test.
func (c *cluster) launch(name string, by *launcher, arguments ...string) *process {
	c.t.Helper()
	log := filepath.Join(c.dir, "logs", name)
	p, err := by.launch(name, log, arguments...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[name] = p
	if !slices.Contains(c.logs, log) {
		c.logs = append(c.logs, log)
	}
	return p
}

// process returns the latest process with a name.
func (c *cluster) process(name string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[name]
}

// lives says whether a process was started, and has neither ended nor been paused.
func (c *cluster) lives(name string) bool {
	p := c.process(name)
	return p != nil && !p.over() && !p.paused.Load()
}

// close ends every process, agents first so that they end their jobs.
func (c *cluster) close() {
	defer c.launcher.close()
	var wait sync.WaitGroup
	for _, replicas := range []bool{false, true} {
		for name, p := range maps.All(c.processes) {
			if slices.Contains(replicaNames, name) != replicas {
				continue
			}
			wait.Go(func() {
				if err := p.stop(); err != nil {
					c.t.Error(err)
				}
			})
		}
		wait.Wait()
	}
	// Jobs of agents that were killed end by themselves with their lease.
	until(c.t, "every job is gone", func() string {
		if left := processesWith(c.dir); len(left) > 0 {
			return "left are " + strings.Join(left, ", ")
		}
		return ""
	})
	// An agent that was killed, or left its jobs, had no chance to.
	until(c.t, "the groups of the nodes are removed", func() string { return removeGroups("weir-" + c.node("")) })
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
	if c.t.Failed() {
		c.showLogs()
	}
}

// removeGroups removes the control groups whose name begins with prefix, and all below
// them. It returns why that cannot be done yet.
func removeGroups(prefix string) string {
	var groups []string
	below := ""
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			// Other tests remove theirs meanwhile.
			return nil
		case below != "" && strings.HasPrefix(path, below+"/"):
		case strings.HasPrefix(entry.Name(), prefix):
			below = path
		default:
			return nil
		}
		groups = append(groups, path)
		return nil
	})
	for _, group := range slices.Backward(groups) {
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err.Error()
		}
	}
	return ""
}

// showLogs logs the end of what each process printed.
func (c *cluster) showLogs() {
	for _, log := range c.logs {
		data, err := os.ReadFile(log)
		if err != nil {
			c.t.Error(err)
			continue
		}
		c.t.Logf("---- %s\n%s", filepath.Base(log), tail(string(data), 25))
	}
}

// folder makes a folder for what jobs witness. Whatever user they are, they may write there.
func (c *cluster) folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(c.files(), "witness-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// here is an address of this machine that no other process of tests uses: a port of it
// stays free while its replica is down.
var here = ownAddress(os.Getpid())

// ownAddress returns a loopback address for a process, 127.0.0.1 where there are no others.
func ownAddress(pid int) string {
	address := fmt.Sprintf("127.%d.%d.%d", 1+pid>>16&0x7f, pid>>8&0xff, pid&0xff)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "127.0.0.1"
	}
	_ = listener.Close()
	return address
}

// given are the ports that freePorts has returned.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// freePorts returns ports of host that are free now, for TCP and UDP, and returns none of
// them again. They are below those that the system gives to outgoing connections: such a
// one could be taken while its replica is down.
func freePorts(t testing.TB, host string, count int) []int {
	t.Helper()
	const first, end = 10000, 32768
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	var ports []int
	for range 1000 {
		port := first + rand.IntN(end-first)
		if !given.ports[port] && isFree(host, port) {
			ports = append(ports, port)
			given.ports[port] = true
		}
		if len(ports) == count {
			return ports
		}
	}
	t.Fatalf("no %d free ports at %s", count, host)
	return nil
}

func isFree(host string, port int) bool {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	stream, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp", address)
	return err == nil && packets.Close() == nil
}
