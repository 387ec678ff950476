package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/chaos/check"
	"weir/chaos/fault"
	"weir/chaos/history"
	"weir/cmd/weir/internal/chaosrun"
	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
)

// openFolder makes a folder that jobs, which are other users, can come to.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestChaos presses real clusters.
func TestChaos(t *testing.T) {
	programs := openFolder(t)
	for _, name := range []string{"weir", "weir-jobproxy"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(programs, name), "../"+name)
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, output)
		}
	}
	weir := filepath.Join(programs, "weir")
	t.Run("smoke", func(t *testing.T) { testChaosSmoke(t, weir) })
	t.Run("upgrade", func(t *testing.T) { testChaosUpgrade(t, weir) })
	t.Run("interrupted", func(t *testing.T) { testChaosInterrupted(t, weir) })
	t.Run("terminal", func(t *testing.T) { testChaosTerminal(t, weir) })
	t.Run("killed", func(t *testing.T) { testChaosKilled(t, weir) })
}

// chaosPatience bounds what takes a minute on a machine that is busy.
const chaosPatience = 6 * time.Minute

func testChaosSmoke(t *testing.T, weir string) {
	ctx, cancel := context.WithTimeout(t.Context(), chaosPatience)
	defer cancel()
	dir := filepath.Join(openFolder(t), "run")
	cmd := devCommand(ctx, weir, t.TempDir(), "chaos", "run", "--profile", "smoke", "--simulated-nodes", "20", "--dir", dir)
	output, err := cmd.CombinedOutput()
	t.Logf("weir chaos run: %v\n%s", err, output)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`all +- +8 +0 `, `S6 +at most one attempt of a cookie runs at a time +0\n`, `all +- +0\n`, `again: weir chaos run --profile smoke.* --simulated-nodes 20`, `simulated nodes +20\n`, `jobs completed by simulated nodes +[1-9]`} {
		if !regexp.MustCompile(want).Match(output) {
			t.Errorf("the summary does not say %q", want)
		}
	}
	wantNoProcess(t, dir)
}

// testChaosUpgrade has a cluster of the previous version, whose leader is swapped. At the end all members have this
// version, and their states are compared.
func testChaosUpgrade(t *testing.T, weir string) {
	previous, err := exec.Command("../../.ci/previous").Output()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), chaosPatience)
	defer cancel()
	dir := filepath.Join(openFolder(t), "run")
	cmd := devCommand(ctx, weir, t.TempDir(), "chaos", "run", "--only", "swap", "--faults", "1", "--upgrade", strings.TrimSpace(string(previous)), "--dir", dir)
	output, err := cmd.CombinedOutput()
	t.Logf("weir chaos run --upgrade: %v\n%s", err, output)
	if err != nil {
		t.Fatal(err)
	}
	run, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := check.Sum(run).Compared; n != 3 {
		t.Errorf("%d replicas told hashes of their states, want 3", n)
	}
	wantNoProcess(t, dir)
}

// testChaosInterrupted stops a run while members are paused or gone.
func testChaosInterrupted(t *testing.T, weir string) {
	dir := filepath.Join(openFolder(t), "run")
	if err := endInMidFault(t, weir, dir, syscall.SIGINT); err == nil {
		t.Error("a run that was interrupted ended as one that was not")
	}
	wantHealed(t, dir, true)
	wantNoMember(t, dir)
}

// testChaosKilled kills a run in the same state; weir chaos heal cleans up.
func testChaosKilled(t *testing.T, weir string) {
	temp := openFolder(t)
	dir := filepath.Join(temp, chaosrun.TemporaryPrefix+"1")
	if err := endInMidFault(t, weir, dir, syscall.SIGKILL); err == nil {
		t.Error("a run that was killed ended by itself")
	}
	record, err := devcluster.Load(filepath.Join(dir, chaosrun.ClusterFolder))
	if err != nil {
		t.Fatalf("there is nothing to heal: %v", err)
	}
	heal := func() string {
		cmd := devCommand(t.Context(), weir, temp, "chaos", "heal")
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("weir chaos heal: %v", err)
		}
		return string(output)
	}
	if output := heal(); !strings.Contains(output, "cleaned up and removed "+dir) {
		t.Errorf("weir chaos heal:\n%s", output)
	}
	wantNoProcess(t, dir)
	for _, m := range record.Members {
		if groups, err := chaosrun.ControlGroups(m.Name); err != nil || len(groups) > 0 {
			t.Errorf("left behind: %v, %v", groups, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the run is still there: %v", err)
	}
	if output := heal(); output != "" {
		t.Errorf("weir chaos heal, with nothing to heal:\n%s", output)
	}
}

// endInMidFault starts a run, sends it a signal while a fault lasts, and returns how
// it ended.
func endInMidFault(t *testing.T, weir, dir string, signal syscall.Signal) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), chaosPatience)
	defer cancel()
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
	sent := false
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if !sent && strings.Contains(lines.Text(), ", now ") {
			sent = true
			if err := cmd.Process.Signal(signal); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if !sent {
		t.Errorf("no fault was seen: %v\n%s", err, all.String())
	}
	return err
}

// TestChaosKinds: only kinds that are there, and that can be done here.
func TestChaosKinds(t *testing.T) {
	noRoot := []fault.Kind{fault.Kill, fault.Pause}
	for name, test := range map[string]struct {
		flags    chaosFlags
		possible []fault.Kind
		want     []fault.Kind
		wantErr  string
	}{
		"all":                 {chaosFlags{timing: "fast", upgrade: "other"}, fault.Kinds, fault.Kinds, ""},
		"one build":           {chaosFlags{timing: "fast"}, fault.Kinds, []fault.Kind{fault.Kill, fault.Pause, fault.Cut, fault.Late, fault.Hang}, ""},
		"swaps of one build":  {chaosFlags{timing: "fast", only: []string{"swap"}}, fault.Kinds, nil, "--only swap: not possible here"},
		"without root":        {chaosFlags{timing: "fast"}, noRoot, noRoot, ""},
		"slow elections":      {chaosFlags{timing: "default"}, fault.Kinds, []fault.Kind{fault.Kill, fault.Pause, fault.Cut, fault.Hang}, ""},
		"some":                {chaosFlags{timing: "fast", only: []string{"cut", "kill"}}, fault.Kinds, []fault.Kind{fault.Kill, fault.Cut}, ""},
		"cuts without root":   {chaosFlags{timing: "fast", only: []string{"cut"}}, noRoot, nil, "--only cut: not possible here"},
		"late with slow ones": {chaosFlags{timing: "default", only: []string{"late"}}, fault.Kinds, nil, "--only late: not possible here"},
		"what nobody can":     {chaosFlags{timing: "fast", only: []string{"fire"}}, fault.Kinds, nil, `--only: fault "fire"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.flags.kinds(test.possible)
			if !slices.Equal(got, test.want) || (test.wantErr == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), test.wantErr) {
				t.Errorf("got %v, %v; want %v, %q", got, err, test.want, test.wantErr)
			}
		})
	}
}

// TestChaosSimulatedNodes has numbers of simulated nodes.
func TestChaosSimulatedNodes(t *testing.T) {
	for nodes, wantErr := range map[int]string{0: "", 1000: "", 10_000: "", -1: "--simulated-nodes -1: must be", 10_001: "--simulated-nodes 10001: must be"} {
		f := chaosFlags{profile: "smoke", replicas: 3, agents: 4, timing: "fast", simulated: nodes}
		err := f.complete(newChaosRunCommand())
		if (err == nil) != (wantErr == "") || err != nil && (!strings.HasPrefix(err.Error(), wantErr) || codeOf(err) != exitUsage) {
			t.Errorf("%d nodes: got %v, want %q", nodes, err, wantErr)
		}
		if again := f.again(); strings.Contains(again, fmt.Sprint(" --simulated-nodes ", nodes)) != (nodes > 0) {
			t.Errorf("%d nodes: the command that repeats the run is %s", nodes, again)
		}
	}
}

// TestChaosHealRefuses names what is no run.
func TestChaosHealRefuses(t *testing.T) {
	for name, test := range map[string]struct{ folder, want string }{
		"a folder of something else": {t.TempDir(), "is not a folder of weir chaos run"},
		"a folder that is not there": {filepath.Join(t.TempDir(), "x"), "is not a folder of weir chaos run"},
	} {
		t.Run(name, func(t *testing.T) {
			err := chaosrun.Heal(t.Context(), test.folder, false, sweepAgent, screen.New(io.Discard))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestChaosHealLeavesRunsAlone: the owner of this run, the test, lives, and has just
// begun.
func TestChaosHealLeavesRunsAlone(t *testing.T) {
	dir := t.TempDir()
	if err := chaosrun.Own(dir); err != nil {
		t.Fatal(err)
	}
	if err := chaosrun.Heal(t.Context(), dir, false, sweepAgent, screen.New(io.Discard)); !errors.Is(err, chaosrun.ErrRunning) {
		t.Errorf("got %v, want %v", err, chaosrun.ErrRunning)
	}
	if _, err := os.Stat(filepath.Join(dir, chaosrun.OwnerFile)); err != nil {
		t.Error(err)
	}
}

// TestChaosHealPassesOver heals the run that is over, among folders that have its name
// alone and one that goes on.
func TestChaosHealPassesOver(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	empty, goesOn, over := filepath.Join(temp, chaosrun.TemporaryPrefix+"1"), filepath.Join(temp, chaosrun.TemporaryPrefix+"2"), filepath.Join(temp, chaosrun.TemporaryPrefix+"3")
	for _, dir := range []string{empty, goesOn, over} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := chaosrun.Own(goesOn); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(over, chaosrun.OwnerFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	heal := newChaosHealCommand()
	heal.SetArgs([]string{})
	heal.SetOut(&said)
	if err := heal.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{empty + " is not a folder of weir chaos run", goesOn + ": this run is in progress", "cleaned up and removed " + over} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || !slices.Equal(left, []string{empty, goesOn}) {
		t.Errorf("%v is left, %v", left, err)
	}
}

// wantNoProcess fails the test if a process of a run lives.
func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	left, err := chaosrun.Processes(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %s, %v", strings.Join(left, "; "), err)
	}
}
