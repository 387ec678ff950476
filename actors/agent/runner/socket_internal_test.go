package runner

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestHangUp (T2): connections to a socket that nobody has accepted are closed, and later ones are accepted.
func TestHangUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dial := func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err == nil {
			err = conn.SetDeadline(time.Now().Add(time.Minute))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	early := []net.Conn{dial(), dial()}
	if err := hangUp(file); err != nil {
		t.Fatal(err)
	}
	for i, conn := range early {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read from early connection %d: %v, want its end", i, err)
		}
	}
	late := dial()
	again, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	accepted, err := again.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if _, err := accepted.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := late.Read(make([]byte, 1)); err != nil {
		t.Errorf("read from the late connection: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}
