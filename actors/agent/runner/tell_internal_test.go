package runner

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// TestSend writes what there is room for, whatever deadline of before is over, and gives up on
// who does not read.
func TestSend(t *testing.T) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := send(conn, []byte("{}\n")); err != nil {
		t.Errorf("send: %v, and there is room", err)
	}
	for line := make([]byte, 64<<10); err == nil; {
		err = send(conn, line)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("send to who does not read: %v, want a deadline", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := send(conn, []byte("{}\n")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("send after the end: %v, want it closed", err)
	}
}

// TestLeaseEndsForAllAtOnce: one whose proxy hangs takes time to be told, and the next has so
// much less.
func TestLeaseEndsForAllAtOnce(t *testing.T) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r := &Runner{config: Config{Logger: slog.New(slog.DiscardHandler)}, jobs: map[string]*Job{}}
	var proxies []*net.UnixConn
	for _, id := range []string{"hangs", "listens"} {
		r.jobs[id] = newJob(r, id)
		if r.jobs[id].conn, err = net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr)); err != nil {
			t.Fatal(err)
		}
		defer r.jobs[id].conn.Close()
		proxy, err := listener.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		defer proxy.Close()
		proxies = append(proxies, proxy)
	}
	for line := make([]byte, 64<<10); err == nil; {
		err = send(r.jobs["hangs"].conn, line)
	}
	// Not even a short line has room.
	for err = nil; err == nil; {
		err = send(r.jobs["hangs"].conn, []byte("\n"))
	}
	const lease = time.Hour
	r.jobs["listens"].renewsUntil = true
	until := clock.Boot() + lease
	r.RenewAll(until)
	message, err := proxyproto.NewReader(proxies[1]).Read()
	if err != nil || message.Renew == nil || message.Renew.LeaseMillis > (lease-tellTimeout).Milliseconds()+1 {
		t.Errorf("told %+v, %v, want less by what it took to tell the other", message.Renew, err)
	}
	if end := message.Renew.EndMillis; end != until.Milliseconds() {
		t.Errorf("told that it ends at %d, want %d", end, until.Milliseconds())
	}
}
