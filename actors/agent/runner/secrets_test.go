package runner_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// TestSecretsReachTheCommandAlone (T3) gives a job secrets: its command has them as variables, and
// neither a file of the agent, nor the proxy, nor a probe has them.
func TestSecretsReachTheCommandAlone(t *testing.T) {
	secrets := map[string]string{"TOKEN": "hunter2 \"line\nbreak\" ключ", "EMPTY": ""}
	for _, isolation := range proxyproto.Isolations {
		for backend, detect := range backends {
			t.Run(isolation+" "+backend, func(t *testing.T) {
				f := newFixture(t, detect, inFolder(t, disktest.Reachable(t)))
				user := ""
				if isolation == proxyproto.IsolationStrict {
					needsRoot(t)
					user = "nobody"
				}
				job, err := f.Start(t.Context(), runner.JobSpec{
					ID: "job", User: user, Isolation: isolation, Lease: time.Minute, Secrets: secrets,
					Shell: `touch ran; while [ ! -e end ]; do sleep 0.05; done; printf '%s|%s|' "$WEIR_SECURE_VAULT_TOKEN" "${WEIR_SECURE_VAULT_EMPTY-none}"; ls /proc/self/fd | wc -l`,
				})
				if err != nil {
					t.Fatal(err)
				}
				work := filepath.Join(f.config.Root, "jobs", "job", "work")
				eventually(t, "the command has begun", func() bool {
					_, err := os.Stat(filepath.Join(work, "ran"))
					return err == nil
				})
				if err := job.Probe(t.Context(), []string{"sh", "-c", `test -z "${WEIR_SECURE_VAULT_TOKEN+set}"`}, patience); err != nil {
					t.Errorf("a probe has the secret: %v", err)
				}
				notIn(t, "hunter2", filepath.Join(f.config.Root, "jobs"))
				for _, pid := range proxiesOf(t, filepath.Join(f.config.Root, "jobs", "job")) {
					for _, name := range []string{"cmdline", "environ"} {
						if content, err := os.ReadFile(filepath.Join("/proc", pid, name)); err != nil || bytes.Contains(content, []byte("hunter2")) {
							t.Errorf("%s of process %s: %q, %v", name, pid, content, err)
						}
					}
					if target, err := os.Readlink(filepath.Join("/proc", pid, "fd", fmt.Sprint(proxyproto.SecretsDescriptor))); err == nil && strings.Contains(target, "weir-secrets") {
						t.Errorf("process %s still has %s", pid, target)
					}
				}
				if err := os.WriteFile(filepath.Join(work, "end"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				finished(t, job)
				// Beside the standard files, ls has the folder that it lists.
				if got, want := f.output(t, "job", "stdout"), secrets["TOKEN"]+"||4\n"; got != want {
					t.Errorf("the command has %q, want %q", got, want)
				}
			})
		}
	}
}

// proxiesOf returns the pids of weir-jobproxy for a job's folder.
func proxiesOf(t *testing.T, folder string) (pids []string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		// A process that has ended meanwhile has none.
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if words := strings.Split(string(arguments), "\x00"); len(words) > 2 && strings.Contains(words[0], "weir-jobproxy") && words[len(words)-2] == folder {
			pids = append(pids, filepath.Base(process))
		}
	}
	if len(pids) == 0 {
		t.Error("no proxy is found")
	}
	return pids
}

// notIn looks for a text in all files of a folder.
func notIn(t *testing.T, text, folder string) {
	t.Helper()
	looked := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			t.Errorf("%s has %q", path, text)
		}
		looked++
		return err
	})
	if err != nil || looked < 2 {
		t.Errorf("looked at %d files: %v", looked, err)
	}
}
