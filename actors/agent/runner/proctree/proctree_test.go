package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

func TestParseStat(t *testing.T) {
	tests := map[string]struct {
		line      string
		want      Process
		wantError string
	}{
		"a usual one": {
			line: "42 (sleep) S 7 42 42 0 -1 4194304 95 0 0 0 1 2 3 4 20 0 1 0 98765 5672960 214",
			want: Process{Identity: proxyproto.Identity{Pid: 42, StartTicks: 98765}, Parent: 7, Threads: 1, Name: "sleep",
				CPUUser: 40 * time.Millisecond, CPUSystem: 60 * time.Millisecond},
		},
		"a name that looks like the rest": {
			line: "42 (a) R 1 (b) Z 7 42 42 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 1 0 5 5672960 214",
			want: Process{Identity: proxyproto.Identity{Pid: 42, StartTicks: 5}, Parent: 7, Threads: 1, Name: "a) R 1 (b", Gone: true},
		},
		"its first thread has ended": {
			line: "42 (sleep) Z 7 42 42 0 -1 4194308 95 0 0 0 1 2 3 4 20 0 2 0 98765 5672960 214",
			want: Process{Identity: proxyproto.Identity{Pid: 42, StartTicks: 98765}, Parent: 7, Threads: 2, Name: "sleep", Headless: true, Ending: true,
				CPUUser: 40 * time.Millisecond, CPUSystem: 60 * time.Millisecond},
		},
		"cut off":        {line: "42 (sleep) S 7 42", wantError: "has 3 fields"},
		"without a name": {line: "42 sleep S 7", wantError: "no name"},
		"no number":      {line: "42 (sleep) S x 42 42 0 -1 4194304 95 0 0 0 1 2 3 4 20 0 1 0 98765", wantError: "field 4"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(test.line))
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("parseStat: %v, want an error with %q", err, test.wantError)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("parseStat: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (sleep) S 7 42 42 0 -1 4194304 95 0 0 0 1 2 3 4 20 0 1 0 98765 5672960 214"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if process, err := parseStat(data); err == nil && process.Name != "" && !strings.Contains(string(data), process.Name) {
			t.Errorf("name %q is not in %q", process.Name, data)
		}
	})
}

// ownMark is a mark that no process has but those of this test binary.
func ownMark(name string) string { return fmt.Sprintf("/%s-%d", name, os.Getpid()) }

func TestTreeAndKill(t *testing.T) {
	mark := ownMark("tree")
	command := exec.Command("/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait")
	command.Env = []string{proxyproto.TreeVariable + "=" + mark, "PATH=" + os.Getenv("PATH")}
	command.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-command.Process.Pid, unix.SIGKILL)
		_ = command.Wait()
	})
	deadline := time.After(time.Minute)
	for {
		descendants, err := Tree(command.Process.Pid, "")
		if err != nil {
			t.Fatal(err)
		}
		marked, err := Tree(-1, mark)
		if err != nil {
			t.Fatal(err)
		}
		if len(descendants) == 2 && len(marked) == 3 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("descendants %v, marked %v, want 2 and 3", descendants, marked)
		case <-time.After(time.Millisecond):
		}
	}
	root, err := Read(command.Process.Pid)
	if err != nil || !Alive(root.Identity) {
		t.Fatalf("Read: %+v, %v, want it alive", root, err)
	}
	if Alive(proxyproto.Identity{Pid: root.Pid, StartTicks: root.StartTicks + 1}) {
		t.Error("Alive: a process that started at another time is taken for this one")
	}
	if err := Kill(func() ([]Process, error) { return Tree(-1, mark) }, time.Minute); err != nil {
		t.Fatal(err)
	}
	if Alive(root.Identity) {
		t.Error("the root process lives after Kill")
	}
}

func TestReadOfNobody(t *testing.T) {
	if _, err := Read(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read: %v, want ErrNotExist", err)
	}
}

func TestMemory(t *testing.T) {
	share, shared, err := Memory(os.Getpid())
	if err != nil || share < 1<<20 || shared > share {
		t.Errorf("Memory: %d, %d of it shared memory, %v, want some MiB", share, shared, err)
	}
	resident, err := Resident(os.Getpid())
	if err != nil || resident < share/2 {
		t.Errorf("Resident: %d, %v, want about %d", resident, err, share)
	}
}

// TestPeakIsTheProgramsOwn has a small program started by a large one, whose memory it
// shares until it is one of its own.
func TestPeakIsTheProgramsOwn(t *testing.T) {
	const large = 256 << 20
	held := bytes.Repeat([]byte{1}, large)
	cmd := exec.Command("cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	// What comes back has been through the program.
	if _, err := input.Write(held[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if peak, err := Peak(cmd.Process.Pid); err != nil || peak == 0 || peak > large/2 {
		t.Errorf("Peak: %d, %v, want some MiB, not the %d of its parent", peak, err, large)
	}
	if peak, err := Peak(os.Getpid()); err != nil || peak < large {
		t.Errorf("Peak of the test: %d, %v, want more than %d", peak, err, large)
	}
}
