package devcluster

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testNetwork opens a network around a namespace of the test's own.
func testNetwork(t *testing.T, names ...string) *Network {
	t.Helper()
	hub, err := newNamespace()
	if err != nil {
		t.Skipf("cannot create network namespaces here: %v", err)
	}
	if err := within(hub, enableForwarding); err != nil {
		t.Skipf("packets are not passed on here: %v", err)
	}
	n, err := openNetwork(hub, names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// connected returns both ends of a connection from one member to another.
func connected(t *testing.T, n *Network, from, to string) (dialled, accepted net.Conn) {
	t.Helper()
	var listener net.Listener
	err := within(n.members[to].namespace, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(n.Address(to), "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = within(n.members[from].namespace, func() (err error) {
		dialled, err = net.DialTimeout("tcp", listener.Addr().String(), patience)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if accepted, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{dialled, accepted} {
		t.Cleanup(func() { _ = c.Close() })
	}
	return dialled, accepted
}

// passes says whether a byte gets from one end to the other in time.
func passes(t *testing.T, from, to net.Conn, timeout time.Duration) bool {
	t.Helper()
	if _, err := from.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := to.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	_, err := to.Read(make([]byte, 1))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

func TestCutAndMend(t *testing.T) {
	n := testNetwork(t, "a", "b", "c")
	ab, ba := connected(t, n, "a", "b")
	ac, ca := connected(t, n, "a", "c")
	const soon = 300 * time.Millisecond
	if !passes(t, ab, ba, patience) || !passes(t, ba, ab, patience) {
		t.Fatal("nothing passes before the cut")
	}
	if err := n.Cut("a", "b"); err != nil {
		t.Fatal(err)
	}
	if passes(t, ab, ba, soon) || passes(t, ba, ab, soon) {
		t.Error("something passes a cut")
	}
	if !passes(t, ac, ca, patience) || !passes(t, ca, ac, patience) {
		t.Error("others are cut too")
	}
	if err := errors.Join(n.Cut("b", "a"), n.Mend("a", "b")); err != nil {
		t.Fatal(err)
	}
	if passes(t, ab, ba, soon) {
		t.Error("something passes that was cut twice and mended once")
	}
	if err := n.Mend("a", "b"); err != nil {
		t.Fatal(err)
	}
	// What was sent meanwhile arrives.
	if !passes(t, ab, ba, patience) || !passes(t, ba, ab, patience) {
		t.Error("nothing passes after it was mended")
	}
	if err := n.Mend("a", "b"); err != nil {
		t.Errorf("mend what is whole: %v", err)
	}
	if err := n.Cut("a", "nobody"); err == nil {
		t.Error("a member that does not exist was cut off")
	}
}

func TestPauseAndResume(t *testing.T) {
	c := launched(t, nil)
	if err := c.AwaitReady(t.Context(), everybody, func(Progress) {}); err != nil {
		t.Fatal(err)
	}
	dir, process := c.config.Dir, processes(t, c.config.Dir)[1]
	if err := Pause(dir, "r2"); err != nil {
		t.Fatal(err)
	}
	if !process.Alive() {
		t.Error("a paused process is dead")
	}
	// A stopped process does not hear SIGTERM before it goes on.
	if err := process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if Await(t.Context(), 300*time.Millisecond, func() bool { return !process.Alive() }) {
		t.Error("it was not paused")
	}
	if err := Resume(dir, "r2"); err != nil {
		t.Fatal(err)
	}
	if !Await(t.Context(), patience, func() bool { return !process.Alive() }) {
		t.Error("it does not go on")
	}
	if err := Pause(dir, "r2"); err == nil {
		t.Error("a process that is gone was paused")
	}
	if err := Resume(dir, "r2"); err != nil {
		t.Errorf("resume of a process that is gone: %v", err)
	}
}
