package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/chaos/history"
	"weir/cmd/weir/internal/chaosrun"
)

// testChaosTerminal types Ctrl-C on the terminal of a run.
func testChaosTerminal(t *testing.T, weir string) {
	for name, test := range map[string]struct {
		// seen on the screen before.
		seen string
		// wantHealed: at least one fault, and all are healed.
		wantHealed bool
	}{
		"while its cluster starts": {"starting: replicas up", false},
		"while a member is dead":   {", now kill", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(openFolder(t), "run")
			screen, err := interruptOnTerminal(t, test.seen, weir, "chaos", "run", "--dir", dir, "--only", "kill")
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted || !strings.HasSuffix(screen, "weir: interrupted\r\n") {
				t.Errorf("ended with %v; want exit status %d and that it was interrupted:\n%s", err, exitInterrupted, screen)
			}
			if !strings.Contains(screen, chaosEnding) {
				t.Errorf("the screen does not say %q:\n%s", chaosEnding, screen)
			}
			wantHealed(t, dir, test.wantHealed)
			wantNoMember(t, dir)
		})
	}
}

// interruptOnTerminal runs a program on a terminal of its own, types Ctrl-C when the
// screen shows some words, and returns all that it showed, and how the program ended.
func interruptOnTerminal(t *testing.T, seen, program string, arguments ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), chaosPatience)
	defer cancel()
	keyboard, terminal := openTerminal(t)
	cmd := devCommand(ctx, program, t.TempDir(), arguments...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	// Ctrl-C is for whoever is in the foreground of the terminal: all that the run
	// starts and does not take out of its reach.
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	err := errors.Join(cmd.Start(), terminal.Close())
	if err != nil {
		t.Fatal(err)
	}
	var screen strings.Builder
	typed := false
	// It is an error to read from a terminal that nobody has any more.
	for buffer := make([]byte, 4096); err == nil; {
		var n int
		n, err = keyboard.Read(buffer)
		screen.Write(buffer[:n])
		if !typed && strings.Contains(screen.String(), seen) {
			typed = true
			if _, err := keyboard.Write([]byte{'C' & 0x1f}); err != nil {
				t.Error(err)
			}
		}
	}
	if !typed {
		t.Errorf("the screen has not shown %q", seen)
	}
	return screen.String(), cmd.Wait()
}

// openTerminal makes a terminal, and returns what is in front of its user and what is
// its program's.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	fd := int(keyboard.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}))
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return keyboard, terminal
}

// wantHealed fails the test if a fault of a run was not healed, or if there was none
// although some were wanted.
func wantHealed(t *testing.T, dir string, some bool) {
	t.Helper()
	run, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	begun, healed := 0, 0
	for _, act := range run.Acts {
		switch {
		case act.What == history.Inject:
			begun++
		case act.What == history.Heal && act.Error == "":
			healed++
		}
	}
	if begun != healed || some && begun == 0 {
		t.Errorf("%d faults, %d healed: %+v", begun, healed, run.Acts)
	}
}

// wantNoMember fails the test if something of the cluster of a run is left.
func wantNoMember(t *testing.T, dir string) {
	t.Helper()
	wantNoProcess(t, dir)
	if _, err := os.Stat(filepath.Join(dir, chaosrun.ClusterFolder)); err == nil {
		t.Errorf("the cluster's folder is still there")
	}
	agents, err := filepath.Glob(filepath.Join(dir, chaosrun.MembersFolder, "x*"))
	if err != nil || len(agents) == 0 {
		t.Errorf("no folders of agents are kept: %v", err)
	}
	for _, agent := range agents {
		if groups, err := chaosrun.ControlGroups(filepath.Base(agent)); err != nil || len(groups) > 0 {
			t.Errorf("left behind: %v, %v", groups, err)
		}
	}
}
