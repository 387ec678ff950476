package devcluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Network gives each member its own network namespace, connected by a veth pair to the
// namespace of this process, which forwards packets. All of it disappears with the last
// process in it, so that nothing needs cleaning up.
type Network struct {
	members map[string]*place
	hub     *os.File

	mu sync.Mutex
	// cuts counts, for each pair of members, the calls of Cut that Mend has not undone.
	cuts map[[2]string]int
}

// place is the network namespace and address of a member.
type place struct {
	namespace *os.File
	address   string
}

// IsolateSelf moves this process into its own network namespace: it executes the same program again
// with variable set in its environment. Called in that namespace, it returns nil. Called
// elsewhere, it returns only if it fails.
func IsolateSelf(variable string) error {
	if os.Getenv(variable) != "" {
		return os.Unsetenv(variable)
	}
	if err := isolate(append(os.Environ(), variable+"=1")); err != nil {
		return fmt.Errorf("cannot create network namespaces here: %w", err)
	}
	return nil
}

// isolate executes this program again in a new network namespace. It returns only if that
// fails.
func isolate(environment []string) error {
	// Exec must happen on the thread that has changed its namespace.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := namespace()
	if err != nil {
		return err
	}
	defer before.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err = errors.Join(enableForwarding(), ip("link set lo up")); err == nil {
		err = unix.Exec("/proc/self/exe", os.Args, environment)
	}
	return errors.Join(err, unix.Setns(int(before.Fd()), unix.CLONE_NEWNET))
}

// OpenNetwork creates the namespaces of members and connects them. This process must be in
// its own namespace: see IsolateSelf.
func OpenNetwork(names []string) (*Network, error) {
	hub, err := namespace()
	if err != nil {
		return nil, fmt.Errorf("open network: %w", err)
	}
	return openNetwork(hub, names)
}

// openNetwork connects the members to the namespace hub, which the network then owns.
func openNetwork(hub *os.File, names []string) (*Network, error) {
	n := &Network{members: make(map[string]*place), hub: hub, cuts: make(map[[2]string]int)}
	for i, name := range names {
		if err := n.connect(name, i); err != nil {
			return nil, errors.Join(fmt.Errorf("open network: %s: %w", name, err), n.Close())
		}
	}
	return n, nil
}

// Address returns the host of a member.
func (n *Network) Address(name string) string { return n.members[name].address }

// connect creates the namespace of the member with this number, and its veth pair.
func (n *Network) connect(name string, number int) error {
	// The network is isolated, so any addresses will do.
	p := &place{address: fmt.Sprintf("10.77.%d.2", number)}
	gateway, device := fmt.Sprintf("10.77.%d.1", number), "m"+strconv.Itoa(number)
	var err error
	if p.namespace, err = newNamespace(); err != nil {
		return err
	}
	n.members[name] = p
	there := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.namespace.Fd())
	err = within(n.hub, func() error {
		return ip("link add "+device+" type veth peer name eth0 netns "+there, "address add "+gateway+"/30 dev "+device, "link set "+device+" up")
	})
	if err != nil {
		return err
	}
	return within(p.namespace, func() error {
		return ip("link set lo up", "address add "+p.address+"/30 dev eth0", "link set eth0 up", "route add default via "+gateway)
	})
}

// Close releases the namespaces; each lasts as long as a process is in it.
func (n *Network) Close() error {
	var errs []error
	for _, p := range n.members {
		errs = append(errs, p.namespace.Close())
	}
	n.members = nil
	if n.hub != nil {
		errs = append(errs, n.hub.Close())
		n.hub = nil
	}
	return errors.Join(errs...)
}

// Cut silently drops every packet between two members, in both directions.
func (n *Network) Cut(a, b string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.members[a] == nil || n.members[b] == nil {
		return fmt.Errorf("cut %s from %s: not connected", a, b)
	}
	pair := pairOf(a, b)
	if n.cuts[pair] == 0 {
		if err := n.drop("add", pair); err != nil {
			return fmt.Errorf("cut %s from %s: %w", a, b, err)
		}
	}
	n.cuts[pair]++
	return nil
}

// Mend undoes one Cut; packets pass again once all Cuts of the pair are undone. It is no error
// if the two members are not cut off from each other.
func (n *Network) Mend(a, b string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	pair := pairOf(a, b)
	switch n.cuts[pair] {
	case 0:
		return nil
	case 1:
		if err := n.drop("del", pair); err != nil {
			return fmt.Errorf("mend %s and %s: %w", a, b, err)
		}
	}
	n.cuts[pair]--
	return nil
}

func pairOf(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// drop adds or deletes the rules that drop packets between a pair; `what` is "add" or "del".
func (n *Network) drop(what string, pair [2]string) error {
	a, b := n.members[pair[0]].address, n.members[pair[1]].address
	rule := "rule " + what + " pref 100 from %s to %s type blackhole"
	return within(n.hub, func() error { return ip(fmt.Sprintf(rule, a, b), fmt.Sprintf(rule, b, a)) })
}

// enter moves the calling thread, which must be locked, into a member's namespace.
func (n *Network) enter(name string) error {
	if err := unix.Setns(int(n.members[name].namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network of %s: %w", name, err)
	}
	return nil
}

// enableForwarding lets packets between members be forwarded.
func enableForwarding() error {
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv4", "ip_forward"), []byte("1\n"), 0o644)
}

// ip runs the program ip once for each line, until one fails.
func ip(lines ...string) error {
	for _, line := range lines {
		output, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}

// namespace returns the network namespace of the calling thread.
func namespace() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// newNamespace creates a network namespace that lasts while its file is open.
func newNamespace() (file *os.File, err error) {
	onOwnThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			file, err = namespace()
		}
	})
	return file, err
}

// within calls `work` in a network namespace. Processes that `work` starts are in the namespace
// too.
func within(namespace *os.File, work func() error) (err error) {
	onOwnThread(func() {
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err == nil {
			err = work()
		}
	})
	return err
}

// onOwnThread calls `work` on a thread that is not used afterwards.
func onOwnThread(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		work()
	}()
	<-done
}
