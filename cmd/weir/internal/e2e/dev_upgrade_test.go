package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/api/client"
	"weir/cmd/weir/internal/devcluster"
	"weir/messages/apipb"
	"weir/raftstore/state"
)

// TestDevUpgrade types what docs/upgrade.md says of one machine: a cluster of the previous version is
// upgraded while a job runs, goes back, is upgraded again and finished, after which nothing is replaced by what is too old.
func TestDevUpgrade(t *testing.T) {
	t.Parallel()
	previous := previousPrograms(t)
	by := newLauncher()
	defer by.close()
	by.program = previous + "/weir"
	// Jobs, which are other users, reach it.
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".weir")
	prefix := fmt.Sprintf("e2e-%d-up-", os.Getpid())
	up, err := by.launch("up", filepath.Join(home, "log"), "dev", "up", "--dir", dir, "--agents", "2", "--node-prefix", prefix, "--lease", "1m")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := up.stop(); err != nil {
			t.Error(err)
		}
	}()
	up.says(t, "ready until Ctrl-C")
	reach, err := devcluster.OpenReach(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reach.Close()
	spec := write(t, filepath.Join(home, "spec.yaml"), "tasks: {t: {command: [sleep, '600'], job_count: 2, cpu_limit: 0.1, memory_limit: 64MiB}}\n")
	verb := func(arguments ...string) string {
		t.Helper()
		printed, code := weirOf(t, program("weir"), append(arguments, "--addresses", strings.Join(reach.Settings.Addresses, ","), "--credentials", reach.Settings.Credentials)...)
		if code != 0 {
			t.Fatalf("weir %v: exit code %d\n%s", arguments, code, printed)
		}
		return strings.TrimSpace(printed)
	}
	// On a busy machine it says before that it tries again.
	lines := strings.Split(verb("op", "start", "-f", spec), "\n")
	operation := lines[len(lines)-1]
	running := func() map[string]int64 {
		jobs, err := reach.Jobs(t.Context(), operation)
		if err != nil {
			t.Fatal(err)
		}
		return pids(jobs)
	}
	var before map[string]int64
	until(t, "both jobs run", func() string {
		before = running()
		if len(before) != 2 || slices.Contains(slices.Collect(maps.Values(before)), 0) {
			return fmt.Sprint(before)
		}
		return ""
	})
	// As one leaves it that is killed.
	if _, err := reach.CreatePool(t.Context(), &apipb.Pool{Name: "weir-dev-upgrade"}); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{programs, previous, programs} {
		printed, code := weirWithin(t, 3*patience, program("weir"), "dev", "upgrade", "--dir", dir, "--from", folder)
		t.Logf("weir dev upgrade --from %s\n%s", folder, printed)
		if code != 0 || !strings.Contains(printed, "all processes run "+folder) {
			t.Fatalf("exit code %d\n%s", code, up.printed())
		}
		record, err := devcluster.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range record.Members {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", m.Process.Pid)); err != nil || exe != filepath.Join(folder, "weir") {
				t.Errorf("%s is %q, %v, want that of %s", m.Name, exe, err, folder)
			}
		}
		if now := running(); !maps.Equal(now, before) {
			t.Errorf("jobs are processes %v, and were %v", now, before)
		}
	}
	if _, err := reach.GetPool(t.Context(), "", "weir-dev-upgrade"); client.CodeOf(err) != state.CodeUnknownPool {
		t.Errorf("the pool that measures is left: %v", err)
	}
	op, err := reach.GetOperation(t.Context(), operation)
	if err != nil {
		t.Fatal(err)
	}
	if p := op.GetProgress(); p.GetAborted() != 0 || p.GetFailed() != 0 || p.GetRunning() != 2 {
		t.Errorf("progress %v", p)
	}
	verb("op", "abort", operation)
	until(t, "the upgrade is finished", func() string {
		printed, code := weirOf(t, program("weir"), "cluster", "upgrade", "finish", "--yes", "--addresses", strings.Join(reach.Settings.Addresses, ","), "--credentials", reach.Settings.Credentials)
		if code != 0 {
			return printed
		}
		return ""
	})
	printed, code := weirOf(t, program("weir"), "dev", "upgrade", "--dir", dir, "--from", previous)
	if code != 1 || !strings.Contains(printed, "it works with cluster version 1, but the cluster has version 2, and there is no way back") {
		t.Errorf("back after the upgrade is finished: exit code %d\n%s", code, printed)
	}
	if printed, code := weirOf(t, program("weir"), "dev", "upgrade", "--dir", dir, "--from", home); code != 2 || !strings.Contains(printed, "weir") {
		t.Errorf("a folder without programs: exit code %d\n%s", code, printed)
	}
}
