package chaosrun

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// lookFor, in the environment, has the test's own program print the processes with a word as JSON.
const lookFor = "WEIR_TEST_LOOK_FOR"

// TestProcessesAboveAreNotLeft has a process whose parent names the folder, as timeout 3600 weir chaos run --dir does, look for
// the processes with that folder: it finds another one only.
func TestProcessesAboveAreNotLeft(t *testing.T) {
	if word := os.Getenv(lookFor); word != "" {
		found, err := Processes(word)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := t.TempDir()
	left := exec.CommandContext(t.Context(), "sh", "-c", "read line", dir)
	hold, err := left.StdinPipe()
	if err == nil {
		err = left.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = hold.Close()
		_ = left.Wait() // It read nothing.
	}()
	// The shell has something left to do, so that it stays.
	above := exec.CommandContext(t.Context(), "sh", "-c", `"$1" -test.run '^TestProcessesAboveAreNotLeft$'; exit $?`, dir, os.Args[0])
	above.Env = append(os.Environ(), lookFor+"="+dir)
	printed, err := above.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	var found []string
	first, _, _ := strings.Cut(string(printed), "\n")
	if err := json.Unmarshal([]byte(first), &found); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if want := fmt.Sprintf("process %d: ", left.Process.Pid); len(found) != 1 || !strings.HasPrefix(found[0], want) {
		t.Errorf("found %q, want only %s", found, want)
	}
}
