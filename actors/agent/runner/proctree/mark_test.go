package proctree

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// begin starts a process with that environment.
func begin(t *testing.T, environment []string, program string, arguments ...string) Process {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Env = environment
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(command.Process.Pid, unix.SIGKILL)
		_ = command.Wait()
	})
	process, err := Read(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return process
}

// soon is when nobody waits for a process any more.
func soon() time.Time { return time.Now().Add(execPatience) }

// TestMarkStaysFromProgramToProgram looks at a process that does nothing but go from one
// program to the next: /proc shows nothing of it some percents of the time.
func TestMarkStaysFromProgramToProgram(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	mark := ownMark("again")
	process := begin(t, []string{proxyproto.TreeVariable + "=" + mark}, script)
	for i := range 5000 {
		if !marked(process, mark, soon()) || !slices.Contains(Arguments(process), script) {
			now, err := Read(process.Pid)
			t.Fatalf("look %d: %+v, %v does not carry its mark, or has arguments %q", i+1, now, err, Arguments(process))
		}
	}
}

func TestNothingGiven(t *testing.T) {
	process := begin(t, []string{}, "/bin/sleep", "1000")
	deadline := time.After(time.Minute)
	for process.waitsForProgram(environment) {
		select {
		case <-deadline:
			t.Fatalf("%+v was given no environment, and is waited for", process)
		case <-time.After(time.Millisecond):
		}
	}
	if marked(process, "", soon()) || !slices.Equal(Arguments(process), []string{"/bin/sleep", "1000"}) {
		t.Errorf("arguments %q, marked %t, want its arguments and no mark", Arguments(process), marked(process, "", soon()))
	}
	for name, other := range map[string]Process{
		"nobody":                     {Identity: proxyproto.Identity{Pid: 1 << 30}},
		"another with the same pid":  {Identity: proxyproto.Identity{Pid: os.Getpid(), StartTicks: 1}},
		"one that has ended already": {Identity: process.Identity, Gone: true},
	} {
		if other.waitsForProgram(environment) && !other.Gone || other.Gone && Arguments(other) != nil {
			t.Errorf("%s is waited for or has arguments %q", name, Arguments(other))
		}
	}
}

// TestMarkOfProxies is that of a process which a proxy has forked, and has no program yet.
func TestMarkOfProxies(t *testing.T) {
	process := begin(t, []string{proxyproto.ProxyVariable + "=/job"}, "/bin/sleep", "1000")
	if !marked(process, "/job", soon()) || marked(process, "/jo", soon()) {
		t.Errorf("marked with its job %t, with another %t", marked(process, "/job", soon()), marked(process, "/jo", soon()))
	}
}
