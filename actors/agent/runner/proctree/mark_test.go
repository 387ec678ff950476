package proctree

import (
	"os/exec"
	"slices"
	"testing"

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

func TestNothingGiven(t *testing.T) {
	process := begin(t, []string{}, "/bin/sleep", "1000")
	if marked(process, "") || !slices.Equal(Arguments(process), []string{"/bin/sleep", "1000"}) {
		t.Errorf("arguments %q, marked %t, want its arguments and no mark", Arguments(process), marked(process, ""))
	}
	if nobody := (Process{Identity: proxyproto.Identity{Pid: 1 << 30}}); Arguments(nobody) != nil {
		t.Errorf("nobody has arguments %q", Arguments(nobody))
	}
}

// TestMarkOfProxies is that of a process which a proxy has forked, and has no program yet.
func TestMarkOfProxies(t *testing.T) {
	process := begin(t, []string{proxyproto.ProxyVariable + "=/job"}, "/bin/sleep", "1000")
	if !marked(process, "/job") || marked(process, "/jo") {
		t.Errorf("marked with its job %t, with another %t", marked(process, "/job"), marked(process, "/jo"))
	}
}
