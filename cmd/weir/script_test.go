package main

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestMain makes of the test binary the program weir, for scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// TestScripts runs testdata/script: what the command line says without a cluster.
// $UNUSED is an address where nobody listens, nor can.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			unused, release, err := boundAddress()
			if err != nil {
				return err
			}
			env.Defer(release)
			env.Setenv("UNUSED", unused)
			// With a race detector, a program waits for a second before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// boundAddress returns a loopback address at which connections are refused, and nobody else
// can listen until it is released.
func boundAddress() (address string, release func(), err error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("bind an address: %w", err)
	}
	release = func() { _ = unix.Close(socket) }
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		release()
		return "", nil, fmt.Errorf("bind an address: %w", err)
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		release()
		return "", nil, fmt.Errorf("bind an address: %w", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port), release, nil
}

// exits runs a program and checks its exit code: exits 2 weir op get. What it
// prints is for stdout and stderr to look at.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [args...]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}
