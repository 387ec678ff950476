package devcluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/actors/agent/runner/proctree"
)

// otherPrograms are other names of the programs that members play.
func otherPrograms(t *testing.T) Programs {
	t.Helper()
	folder := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"weir", "weir-jobproxy"} {
		if err := os.Symlink(program, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := ProgramsIn(folder)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNewest asks programs for the newest version of the cluster that they work with.
func TestNewest(t *testing.T) {
	for story, test := range map[string]struct {
		script string
		want   uint32
	}{
		"one that says so":         {"echo '{\"version\": \"9.0.0\", \"cluster_versions\": {\"oldest\": 3, \"newest\": 7}}'", 7},
		"one that lacks the verb":  {"exit 2", 1},
		"one that says what it is": {"echo hello", 0},
	} {
		path := filepath.Join(t.TempDir(), "weir")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := (Programs{Weir: path}).Newest(t.Context()); got != test.want || (err == nil) != (test.want > 0) {
			t.Errorf("%s: %d, %v", story, got, err)
		}
	}
	if got, err := (Programs{Weir: filepath.Join(t.TempDir(), "none")}).Newest(t.Context()); err == nil {
		t.Errorf("none: %d", got)
	}
}

// wantRuns checks with which programs a member's process was started, and will be.
func wantRuns(t *testing.T, dir, name string, want Programs) {
	t.Helper()
	record, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := record.member(name)
	if err != nil {
		t.Fatal(err)
	}
	if m.Kind == Replica {
		want.JobProxy = ""
	}
	if got := record.Runs(name); got != want {
		t.Errorf("%s runs %+v, want %+v", name, got, want)
	}
	process, err := proctree.Read(m.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	arguments := proctree.Arguments(process)
	if len(arguments) == 0 || arguments[0] != want.Weir || want.JobProxy != "" && !slices.Contains(arguments, want.JobProxy) {
		t.Errorf("the process of %s is %q, want %+v", name, arguments, want)
	}
}

func TestReplace(t *testing.T) {
	for name, detach := range map[string]bool{"owned": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			c := launched(t, func(config *Config) { config.Detached = detach })
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
			dir, own, other := c.config.Dir, Programs{c.config.Program, c.config.JobProxy}, otherPrograms(t)
			before := processes(t, dir)
			for i, name := range map[int]string{0: "r1", 4: "n2"} {
				process, err := Replace(t.Context(), dir, name, other, patience, patience)
				if err != nil {
					t.Fatal(err)
				}
				if !process.Alive() || before[i].Alive() {
					t.Errorf("%s: %+v is to be alive, and %+v is not", name, process, before[i])
				}
				wantRuns(t, dir, name, other)
			}
			// A member that is restarted is what it was: of one build or the other.
			for name, want := range map[string]Programs{"r1": other, "r2": own, "n1": own, "n2": other} {
				if err := Kill(dir, name); err != nil {
					t.Fatal(err)
				}
				if _, err := StartMember(t.Context(), dir, name, patience); err != nil {
					t.Fatal(err)
				}
				wantRuns(t, dir, name, want)
			}
			if _, err := Replace(t.Context(), dir, "r1", own, patience, patience); err != nil {
				t.Fatal(err)
			}
			wantRuns(t, dir, "r1", own)
			if detach {
				if _, err := Down(t.Context(), dir, c.config.Ending); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestProgramsIn(t *testing.T) {
	p := otherPrograms(t)
	if err := os.Remove(p.JobProxy); err != nil {
		t.Fatal(err)
	}
	if _, err := ProgramsIn(filepath.Dir(p.Weir)); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "weir-jobproxy") {
		t.Errorf("without weir-jobproxy: %v", err)
	}
}
