package devcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a test waits for what takes milliseconds on a machine that has
// nothing else to do.
const patience = 2 * time.Minute

// launched starts a cluster in a new folder and stops it after the test.
func launched(t *testing.T, change func(*Config)) *Cluster {
	t.Helper()
	config := Default()
	config.Dir = filepath.Join(t.TempDir(), ".weir")
	complete(&config)
	if change != nil {
		change(&config)
	}
	c, err := Start(config, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		// Whoever waited for a process needs a processor once more.
		Await(context.Background(), patience, func() bool { return goleak.Find() == nil })
		goleak.VerifyNone(t)
	})
	return c
}

// everybody is a probe of a cluster that is well.
func everybody(context.Context) (View, error) {
	return View{Leader: "r1", Online: []string{"n1", "n2"}}, nil
}

func processes(t *testing.T, dir string) []Process {
	t.Helper()
	record, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []Process
	for _, m := range record.Members {
		list = append(list, m.Process)
	}
	return list
}

func wantGone(t *testing.T, dir string, list []Process) {
	t.Helper()
	for _, p := range list {
		if !Await(t.Context(), patience, func() bool { return !p.Alive() }) {
			t.Errorf("process %d lives", p.Pid)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		entries, _ := os.ReadDir(dir)
		t.Errorf("%s is still there: %v", dir, entries)
	}
}

func TestUpAndDown(t *testing.T) {
	c := launched(t, nil)
	var last Progress
	if err := c.AwaitReady(t.Context(), everybody, func(p Progress) { last = p }); err != nil {
		t.Fatal(err)
	}
	if !last.Done() {
		t.Errorf("the last progress is %s", last)
	}
	members := processes(t, c.config.Dir)
	if len(members) != 5 || slices.ContainsFunc(members, func(p Process) bool { return !p.Alive() }) {
		t.Fatalf("members: %+v", members)
	}
	if _, err := os.Stat(SettingsFile(c.config.Dir)); err != nil {
		t.Error(err)
	}
	// Jobs of other users reach their workspaces.
	for folder := filepath.Join(c.config.Dir, "dev", "n1"); len(folder) >= len(c.config.Dir); folder = filepath.Dir(folder) {
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != passable {
			t.Errorf("%s is %v, %v, want mode %o", folder, info.Mode(), err, passable)
		}
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, c.config.Dir, members)
}

func TestSecondClusterIsRefused(t *testing.T) {
	c := launched(t, nil)
	_, err := Start(c.config, func(string) {})
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "weir dev down") {
		t.Errorf("a second start: %v", err)
	}
	for _, p := range processes(t, c.config.Dir) {
		if !p.Alive() {
			t.Errorf("process %d was ended by it", p.Pid)
		}
	}
}

func TestSettingsOfOthersStay(t *testing.T) {
	config := Default()
	config.Dir = t.TempDir()
	complete(&config)
	file := SettingsFile(config.Dir)
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(config, func(string) {}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("start over settings of others: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("they are %q, %v", data, err)
	}
}

func TestProcessThatEndsIsShown(t *testing.T) {
	t.Setenv(faultVariable, "r2")
	c := launched(t, nil)
	members := processes(t, c.config.Dir)
	err := c.AwaitReady(t.Context(), everybody, func(Progress) {})
	if err == nil || !strings.Contains(err.Error(), "r2: exited (exit status 1)") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("await: %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, c.config.Dir, members)
}

func TestProgramThatIsMissing(t *testing.T) {
	config := Default()
	config.Dir = filepath.Join(t.TempDir(), ".weir")
	complete(&config)
	config.Program = filepath.Join(t.TempDir(), "weir")
	if _, err := Start(config, func(string) {}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start: %v", err)
	}
	wantGone(t, config.Dir, nil)
}

func TestNotReadyInTime(t *testing.T) {
	c := launched(t, func(config *Config) { config.ReadyTimeout = time.Second })
	up := func() bool {
		record, err := Load(c.config.Dir)
		return err == nil && !slices.ContainsFunc(record.Members, func(m Member) bool { return !m.Ready() })
	}
	if !Await(t.Context(), patience, up) {
		t.Fatal("its processes are not up")
	}
	lame := func(context.Context) (View, error) { return View{Leader: "r1", Online: []string{"n1"}}, nil }
	err := c.AwaitReady(t.Context(), lame, func(Progress) {})
	if err == nil || !strings.Contains(err.Error(), "agents registered 1/2") {
		t.Errorf("await: %v", err)
	}
}

func TestKillAndStartAnew(t *testing.T) {
	for name, detach := range map[string]bool{"owned": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			c := launched(t, func(config *Config) { config.Detached = detach })
			dir := c.config.Dir
			if err := c.AwaitReady(t.Context(), everybody, func(Progress) {}); err != nil {
				t.Fatal(err)
			}
			if detach {
				if err := c.Detach(); err != nil {
					t.Fatal(err)
				}
			} else {
				keep(t, c)
			}
			before := processes(t, dir)
			if err := Kill(dir, "n2"); err != nil {
				t.Fatal(err)
			}
			if before[4].Alive() {
				t.Error("n2 lives after it was killed")
			}
			if err := Kill(dir, "n2"); err == nil {
				t.Error("n2 was killed twice")
			}
			if err := Kill(dir, "n9"); err == nil || !strings.Contains(err.Error(), "r1, r2, r3, n1, n2") {
				t.Errorf("kill of a stranger: %v", err)
			}
			started, err := StartMember(t.Context(), dir, "n2", patience)
			if err != nil {
				t.Fatal(err)
			}
			if !started.Alive() || started == before[4] {
				t.Errorf("n2 is %+v, was %+v", started, before[4])
			}
			if _, err := StartMember(t.Context(), dir, "n2", patience); err == nil {
				t.Error("n2 was started twice")
			}
			after := processes(t, dir)
			if detach {
				if _, err := Down(t.Context(), dir, c.config.Ending); err != nil {
					t.Fatal(err)
				}
				wantGone(t, dir, append(before, after...))
			}
		})
	}
}

// keep runs a cluster until the test ends.
func keep(t *testing.T, c *Cluster) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// owner starts a process that owns a cluster.
func owner(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(dir)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), partVariable+"="+ownerPart, "CONFIG="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if line != "started\n" {
		rest, _ := io.ReadAll(output)
		t.Fatalf("the owner said %q, %v, %s", line, err, rest)
	}
	return cmd
}

func TestDownEndsTheOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".weir")
	cmd := owner(t, dir)
	members := processes(t, dir)
	ended := make(chan error, 1)
	// Waited for, or it would stay a zombie.
	go func() { ended <- cmd.Wait() }()
	found, err := Down(t.Context(), dir, Ending{StopTimeout: patience, Sweep: func(Member) error { return nil }})
	if err != nil || !strings.Contains(found, "weir dev up") {
		t.Fatalf("down: %q, %v", found, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the owner ended with %v", err)
	}
	wantGone(t, dir, members)
	if _, err := Down(t.Context(), dir, Ending{StopTimeout: patience}); !errors.Is(err, ErrNone) {
		t.Errorf("down again: %v", err)
	}
}

func TestChildrenDieWithTheirOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".weir")
	cmd := owner(t, dir)
	members := processes(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, p := range members {
		if !Await(t.Context(), patience, func() bool { return !p.Alive() }) {
			t.Errorf("process %d outlived its owner", p.Pid)
		}
	}
	// What it left behind does not keep the next one from starting.
	config := Default()
	config.Dir = dir
	complete(&config)
	var said []string
	c, err := Start(config, func(line string) { said = append(said, line) })
	if err != nil {
		t.Fatal(err)
	}
	if len(said) == 0 || !strings.Contains(said[0], "cleaning up") {
		t.Errorf("it said %q", said)
	}
	members = processes(t, dir)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, dir, members)
}
