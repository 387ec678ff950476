package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChaos presses real clusters.
func TestChaos(t *testing.T) {
	programs := t.TempDir()
	for _, name := range []string{"weir", "weir-jobproxy"} {
		build := exec.Command("go", "build", "-o", filepath.Join(programs, name), "../"+name)
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, output)
		}
	}
	weir := filepath.Join(programs, "weir")
	t.Run("smoke", func(t *testing.T) { testChaosSmoke(t, weir) })
	t.Run("interrupted", func(t *testing.T) { testChaosInterrupted(t, weir) })
}

// chaosPatience bounds what takes a minute on a machine that is busy.
const chaosPatience = 6 * time.Minute

func testChaosSmoke(t *testing.T, weir string) {
	ctx, cancel := context.WithTimeout(t.Context(), chaosPatience)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "run")
	cmd := devCommand(ctx, weir, t.TempDir(), "chaos", "run", "--profile", "smoke", "--dir", dir)
	output, err := cmd.CombinedOutput()
	t.Logf("weir chaos run: %v\n%s", err, output)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`all +- +8 +0 `, `S6 +one attempt of a cookie lives at a time +0\n`, `all +- +0\n`, `again: weir chaos run --profile smoke`} {
		if !regexp.MustCompile(want).Match(output) {
			t.Errorf("the summary does not say %q", want)
		}
	}
	wantNoProcess(t, dir)
}

// testChaosInterrupted stops a run while members are paused or gone.
func testChaosInterrupted(t *testing.T, weir string) {
	ctx, cancel := context.WithTimeout(t.Context(), chaosPatience)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "run")
	cmd := devCommand(ctx, weir, t.TempDir(), "chaos", "run", "--dir", dir, "--seed", "7")
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), ", now ") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if err == nil || !strings.Contains(all.String(), "now ") {
		t.Errorf("a run that was interrupted: %v\n%s", err, all.String())
	}
	wantNoProcess(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "cluster")); err == nil {
		t.Errorf("the cluster's folder is still there")
	}
}

// wantNoProcess fails the test if a process of a run lives.
func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	left, err := processesWith(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %s, %v", strings.Join(left, "; "), err)
	}
}
