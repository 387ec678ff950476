package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plantedVariable asks for this test, which takes some minutes: make planted.
const plantedVariable = "WEIR_TEST_PLANTED"

// TestPlantedBugs checks the checker: a run against a build with a bug names the
// invariant that the bug breaks.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv(plantedVariable) == "" {
		t.Skip(plantedVariable + " is not set: make planted runs it")
	}
	programs := openFolder(t)
	for _, name := range []string{"weir", "weir-jobproxy"} {
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", "plantedbugs", "-o", filepath.Join(programs, name), "../"+name)
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, output)
		}
	}
	for bug, planted := range map[string]struct {
		// faults are those that bring the bug out, where the smoke profile has too few.
		faults []string
		// want are the invariants of which one is to be named.
		want []string
	}{
		// None: a leader's plans come twice, and an agent stands that.
		"replay_only": {},
		// Only what a leader says while it is cut off is lost.
		"ack_before_commit": {faults: []string{"--only", "cut"}, want: []string{"S1"}},
		"ignore_token":      {want: []string{"S6", "S7"}},
		"double_count":      {want: []string{"S5"}},
		// One replica lets everybody in.
		"open_door": {want: []string{"S23"}},
		// One replica remembers for some seconds that somebody had a right.
		"stale_rights": {want: []string{"S23"}},
		// One replica adds 1 to a number of its state.
		"drift": {want: []string{"S25"}},
	} {
		t.Run(bug, func(t *testing.T) {
			want := planted.want
			ctx, cancel := context.WithTimeout(t.Context(), chaosPatience)
			defer cancel()
			dir := filepath.Join(openFolder(t), "run")
			arguments := append([]string{"chaos", "run", "--profile", "smoke", "--dir", dir}, planted.faults...)
			cmd := devCommand(ctx, filepath.Join(programs, "weir"), t.TempDir(), arguments...)
			cmd.Env = append(os.Environ(), "WEIR_PLANTED_BUG="+bug)
			output, err := cmd.CombinedOutput()
			t.Logf("%v\n%s", err, output)
			if (err != nil) != (len(want) > 0) {
				t.Errorf("the run ended with %v", err)
			}
			if len(want) > 0 && !caught(string(output), want) {
				t.Errorf("none of %v is named", want)
			}
			if bug == "replay_only" && !regexp.MustCompile(`messages of stale leaders rejected +[1-9]`).Match(output) {
				t.Error("no agent refused a plan that came again")
			}
			wantNoProcess(t, dir)
		})
	}
}

// caught says whether the output names a violation of one of the invariants.
func caught(output string, invariants []string) bool {
	for _, invariant := range invariants {
		if strings.Contains(output, "\n"+invariant+": ") {
			return true
		}
	}
	return false
}
