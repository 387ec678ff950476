package e2e

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/messages/apipb"
)

// The ends of the cable between this machine's network and the namespace: addresses
// kept for tests of networks, which no other process of tests uses.
var (
	hereAddress  = cableEnd(os.Getpid(), 1)
	thereAddress = cableEnd(os.Getpid(), 2)
)

// cableEnd returns an address of the network of four addresses that a process has.
func cableEnd(pid, end int) string {
	const first, networks = 198<<24 | 18<<16, 1 << 15
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(first+pid%networks*4+end)))).String()
}

// namespace is a network of its own, with a cable to this one. It lives as long as
// its launcher's thread and the processes that it started, so nothing stays behind.
type namespace struct {
	*launcher
	here, there string
}

// newNamespace makes a namespace, or skips the test and says why it cannot.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("a network namespace needs the program ip, of iproute2:", err)
	}
	n := &namespace{launcher: newLauncher(), here: fmt.Sprintf("weir%dh", os.Getpid()%100000), there: fmt.Sprintf("weir%dt", os.Getpid()%100000)}
	t.Cleanup(n.close)
	thread := 0
	err := n.do(func() error {
		thread = unix.Gettid()
		return unix.Unshare(unix.CLONE_NEWNET)
	})
	if err != nil {
		t.Skip("no network namespace can be made here:", err)
	}
	if output, err := exec.Command("ip", "link", "add", n.here, "type", "veth", "peer", "name", n.there, "netns", fmt.Sprint(thread)).CombinedOutput(); err != nil {
		t.Skipf("no cable can be made here: %v: %s", err, output)
	}
	t.Cleanup(func() {
		// With its other end it goes by itself, but later.
		if output, err := exec.Command("ip", "link", "delete", n.here).CombinedOutput(); err != nil {
			t.Errorf("delete the cable: %v: %s", err, output)
		}
	})
	for _, line := range []string{"address add " + hereAddress + "/30 dev " + n.here, "link set " + n.here + " up"} {
		ip(t, exec.Command("ip", strings.Fields(line)...).CombinedOutput)
	}
	n.ip(t, "address add "+thereAddress+"/30 dev "+n.there)
	n.ip(t, "link set lo up")
	n.ip(t, "link set "+n.there+" up")
	return n
}

// ip runs the program ip in the namespace.
func (n *namespace) ip(t *testing.T, line string) {
	t.Helper()
	ip(t, func() (output []byte, err error) {
		err = n.do(func() error {
			output, err = exec.Command("ip", strings.Fields(line)...).CombinedOutput()
			return err
		})
		return output, err
	})
}

func ip(t *testing.T, run func() ([]byte, error)) {
	t.Helper()
	if output, err := run(); err != nil {
		t.Fatalf("ip: %v: %s", err, output)
	}
}

// TestAgentElsewhere has an agent join from an address of its own, cuts it off, and
// lets it come back.
func TestAgentElsewhere(t *testing.T) {
	t.Parallel()
	network := newNamespace(t)
	c := newCluster(t, hereAddress, "near", "far")
	far := c.launch("far", network.launcher, c.agentFlags("far", "--network", "4")...)
	c.nodeIs(t, "far", "online")

	dir := c.folder(t)
	release := filepath.Join(dir, "release")
	operation := c.start(t, one(small(3, "run", dir, release).with("network_limit", 1)))
	for _, job := range c.runs(t, operation, 3) {
		if job.GetNode() != c.node("far") {
			t.Errorf("%v is not on the far node", job)
		}
	}
	c.startAgent("near", "--network", "4")
	c.nodeIs(t, "near", "online")

	network.ip(t, "link set "+network.there+" down")
	op := c.becomes(t, operation, "has lost its jobs", func(op *apipb.Operation) bool { return op.GetProgress().GetAborted() == 3 })
	if by := op.GetProgress().GetAbortedByReason(); by["node_offline"] != 3 {
		t.Errorf("aborted by %v, want node_offline", by)
	}
	far.says(t, "lease expired")
	for _, job := range c.runs(t, operation, 3) {
		if job.GetNode() != c.node("near") {
			t.Errorf("%v is not on the near node", job)
		}
	}
	c.nodeIs(t, "far", "offline")
	// The witnesses of both nodes share a folder, and would note two at once.
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := c.ends(t, operation, "completed").GetProgress(); p.GetCompleted() != 3 || p.GetFailed() != 0 {
		t.Errorf("progress %v", p)
	}
	for cookie, lines := range witnessed(t, dir) {
		if len(lines) != 3 || lines[2].what != "end" {
			t.Errorf("%s: %v, want one attempt that broke off and one that ended", cookie, lines)
		}
	}

	network.ip(t, "link set "+network.there+" up")
	c.nodeIs(t, "far", "online")
	if err := c.process("near").stop(); err != nil {
		t.Fatal(err)
	}
	again := c.start(t, one(small(2, "run", c.folder(t), "10ms").with("network_limit", 1)))
	c.ends(t, again, "completed")
	for _, job := range c.jobs(t, again, "completed") {
		if job.GetNode() != c.node("far") {
			t.Errorf("%v is not on the far node", job)
		}
	}
	if far.over() {
		t.Error("the far agent has ended")
	}
}
