package runner

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSend writes at once what there is room for, whatever deadline is over, and gives up on
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
