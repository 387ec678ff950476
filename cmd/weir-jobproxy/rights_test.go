package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// nobody is a user who has no rights of its own.
var nobody = &proxyproto.User{UID: 65534, GID: 65534}

// as is a change of a spec: the job is another user, which can get at its workspace.
func as(t *testing.T, user *proxyproto.User) func(*proxyproto.Spec) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may start processes of others")
	}
	return func(spec *proxyproto.Spec) {
		spec.User = user
		passable(t, spec.Workspace)
		must(t, os.Chown(spec.Workspace, int(user.UID), int(user.GID)))
	}
}

// passable lets everybody come to a folder that a test has made.
func passable(t *testing.T, folder string) {
	t.Helper()
	for ; len(folder) > len(os.TempDir()); folder = filepath.Dir(folder) {
		must(t, os.Chmod(folder, 0o755))
	}
}

// TestFedUsers: a job that is another user may open its standard input and output by
// name.
func TestFedUsers(t *testing.T) {
	t.Setenv("TMPDIR", disktest.Reachable(t))
	output, part := filepath.Join(t.TempDir(), "part"), input(t, "a\n")
	passable(t, filepath.Dir(part.Path))
	result := runJob(t, "cat /dev/stdin > /dev/stdout", fed(output, records.Lines, part), as(t, nobody))
	if got, err := os.ReadFile(output); err != nil || string(got) != "a\n" {
		t.Errorf("result %+v, output %q, %v, want the input", result, got, err)
	}
}

// deniedToNobody is what a job of that user is told.
const deniedToNobody = "permission denied: the job runs as user 65534, group 65534"

// TestUsersReadNoMore: what a job may not read it is not fed.
func TestUsersReadNoMore(t *testing.T) {
	t.Setenv("TMPDIR", disktest.Reachable(t))
	part := input(t, "secret\n")
	passable(t, filepath.Dir(part.Path))
	must(t, os.Chmod(part.Path, 0o640))
	folder := t.TempDir()
	result := runJob(t, "cat", fed(filepath.Join(folder, "part"), records.Lines, part), as(t, nobody))
	if fault := result.InputFault; fault == nil || fault.Kind != proxyproto.InputUnreadable || !strings.Contains(fault.Text, deniedToNobody) {
		t.Errorf("result %+v, fault %+v, want a lack of rights", result, fault)
	}
	emptyFolder(t, folder)
}

// TestMagicLinks (T2): no name leads to what the proxy has open, whoever the job is.
func TestMagicLinks(t *testing.T) {
	const loop = "too many levels of symbolic links"
	part := input(t, "secret\n")
	part.Path = "/proc/self/root" + part.Path
	result := runJob(t, "cat", fed(filepath.Join(t.TempDir(), "part"), records.Lines, part))
	if fault := result.InputFault; fault == nil || !strings.Contains(fault.Text, loop) {
		t.Errorf("input: %+v, fault %+v, want a refusal", result, fault)
	}
	open := t.TempDir()
	result = runJob(t, "cat", fed("/proc/self/root"+filepath.Join(open, "part"), records.Lines, input(t, "a\n")))
	if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, loop) {
		t.Errorf("output: %+v, want a refusal", result)
	}
	for _, destination := range []string{"/proc/self/root" + open + "/kept", "/proc/self/root" + open + "/new/kept", "/proc/self/fd/3/kept"} {
		result = runJob(t, "echo mine > result", func(spec *proxyproto.Spec) {
			spec.Outputs = []proxyproto.KeptFile{{Path: "result", Destination: destination}}
		})
		if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, loop) {
			t.Errorf("%s: %+v, want a refusal", destination, result)
		}
	}
	emptyFolder(t, open)
}

// TestLinksMadeBefore has links in the place of an output before the job runs: nothing is written through them.
func TestLinksMadeBefore(t *testing.T) {
	t.Setenv("TMPDIR", disktest.Reachable(t))
	t.Run("a link to another file in the place of the part", func(t *testing.T) {
		folder := t.TempDir()
		other := filepath.Join(folder, "other")
		write(t, other, "as it was")
		must(t, os.Link(other, filepath.Join(folder, ".part.partial")))
		result := runJob(t, "cat", fed(filepath.Join(folder, "part"), records.Lines, input(t, "a\n")))
		if got, err := os.ReadFile(other); err != nil || string(got) != "as it was" || result.Output == nil {
			t.Errorf("result %+v, the other file has %q, %v", result, got, err)
		}
	})
	t.Run("a link in the place of the output's folder", func(t *testing.T) {
		closed, open := t.TempDir(), t.TempDir()
		must(t, os.Symlink(closed, filepath.Join(open, "staging")))
		result := runJob(t, "cat", fed(filepath.Join(open, "staging", "part"), records.Lines, input(t, "a\n")))
		if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, "is a link") {
			t.Errorf("result %+v, want it not to be followed", result)
		}
		emptyFolder(t, closed)
	})
	t.Run("a link in the place of the output's folder, to one beside it", func(t *testing.T) {
		open := t.TempDir()
		beside := filepath.Join(open, "beside")
		must(t, os.Mkdir(beside, 0o755))
		must(t, os.Symlink("beside", filepath.Join(open, "staging")))
		result := runJob(t, "cat", fed(filepath.Join(open, "staging", "part"), records.Lines, input(t, "a\n")))
		if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, "is a link") {
			t.Errorf("result %+v, want it not to be followed", result)
		}
		emptyFolder(t, beside)
	})
	t.Run("a link to another file in the place of the part's name", func(t *testing.T) {
		folder := t.TempDir()
		other := filepath.Join(folder, "other")
		write(t, other, "as it was")
		must(t, os.Symlink(other, filepath.Join(folder, "part")))
		result := runJob(t, "cat", fed(filepath.Join(folder, "part"), records.Lines, input(t, "a\n")))
		if got, err := os.ReadFile(other); err != nil || string(got) != "as it was" || result.Output == nil {
			t.Errorf("result %+v, the other file has %q, %v", result, got, err)
		}
	})
}

// TestTricksOfJobs has jobs that put something else in the place of their output, whatever they make
// of it: what a job may not write is not written for it.
func TestTricksOfJobs(t *testing.T) {
	t.Setenv("TMPDIR", disktest.Reachable(t))
	for trick, shell := range map[string]string{
		"another folder in the place of the output's, while the job runs":     "mv staging away; mkdir staging; cat",
		"a link in the place of the output's folder, while the job runs":      "mv staging away; ln -s closed staging; cat",
		"a link in the place of the part, while the job runs":                 "rm staging/.part.partial; ln -s ../closed/file staging/.part.partial; cat",
		"a link to another file in the place of the part, while the job runs": "rm staging/.part.partial; ln closed/file staging/.part.partial; cat",
		"a folder in the place of the part, while the job runs":               "rm staging/.part.partial; mkdir staging/.part.partial; cat",
		"nothing in the place of the part, while the job runs":                "rm staging/.part.partial; cat",
		"another part in its place that looks like it, while the job runs":    "rm staging/.part.partial; echo a > staging/.part.partial; cat",
	} {
		t.Run(trick, func(t *testing.T) { playTrick(t, shell) })
	}
}

// playTrick runs a job that is nobody in a folder of its own, beside a closed one.
func playTrick(t *testing.T, shell string) {
	t.Helper()
	above := t.TempDir()
	closed := filepath.Join(above, "closed")
	for _, folder := range []string{"closed", "staging"} {
		must(t, os.Mkdir(filepath.Join(above, folder), 0o755))
	}
	write(t, filepath.Join(closed, "file"), "as it was")
	result := runJob(t, "cd "+above+"; "+shell, fed(filepath.Join(above, "staging", "part"), records.Lines, input(t, "a\n")), as(t, nobody),
		func(*proxyproto.Spec) {
			// The worst: all is the job's, but for what is closed.
			for _, folder := range []string{above, filepath.Join(above, "staging")} {
				passable(t, folder)
				must(t, os.Chown(folder, int(nobody.UID), int(nobody.GID)))
			}
		})
	if strings.Contains(shell, ".partial") && (result.Outcome != proxyproto.OutcomeOutputFailed || result.Output != nil) {
		t.Errorf("result %+v, want it noticed", result)
	}
	entries, err := os.ReadDir(closed)
	if err != nil || len(entries) != 1 {
		t.Errorf("closed folder: %v, %v, want one file", entries, err)
	}
	info, err := os.Stat(filepath.Join(closed, "file"))
	must(t, err)
	got, err := os.ReadFile(filepath.Join(closed, "file"))
	if err != nil || string(got) != "as it was" || info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode().Perm() != 0o644 {
		t.Errorf("the closed file has %q, %v, %v", got, info, err)
	}
}

// TestUsersKeepNoMore: what a job may not write is not kept for it.
func TestUsersKeepNoMore(t *testing.T) {
	t.Setenv("TMPDIR", disktest.Reachable(t))
	closed, open := t.TempDir(), t.TempDir()
	passable(t, closed)
	passable(t, open)
	must(t, os.Chmod(open, 0o777))
	for destination, want := range map[string]string{
		filepath.Join(closed, "kept"): deniedToNobody, filepath.Join(open, "link", "kept"): deniedToNobody, filepath.Join(open, "kept"): "",
	} {
		result := runJob(t, "echo mine > result; ln -sfn "+closed+" "+open+"/link", as(t, nobody), func(spec *proxyproto.Spec) {
			spec.Outputs = []proxyproto.KeptFile{{Path: "result", Destination: destination}}
		})
		if want != "" {
			if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, want) {
				t.Errorf("%s: result %+v, want %q", destination, result, want)
			}
			continue
		}
		info, err := os.Stat(destination)
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != nobody.UID {
			t.Errorf("result %+v: %v, %+v, want it to be the user's", result, err, info)
		}
	}
	emptyFolder(t, closed)
}

// TestOutputIsTheUsers: an output belongs to who the job was, unless that is nobody afterwards.
func TestOutputIsTheUsers(t *testing.T) {
	t.Setenv("TMPDIR", disktest.Reachable(t))
	ownUser := &proxyproto.User{UID: 200_007, GID: 200_007, Own: true}
	for name, test := range map[string]struct {
		user    *proxyproto.User
		wantUID uint32
	}{
		"a user's":         {nobody, nobody.UID},
		"of one job alone": {ownUser, uint32(os.Geteuid())},
		"the proxy's":      {nil, uint32(os.Geteuid())},
	} {
		t.Run(name, func(t *testing.T) {
			folder, part := t.TempDir(), input(t, "a\n")
			passable(t, filepath.Dir(part.Path))
			must(t, os.Chmod(folder, 0o700))
			change := func(*proxyproto.Spec) {}
			if test.user != nil {
				change = as(t, test.user)
			}
			umask := syscall.Umask(0o077)
			result := runJob(t, "cat", fed(filepath.Join(folder, "part"), records.Lines, part), change)
			syscall.Umask(umask)
			info, err := os.Stat(filepath.Join(folder, "part"))
			if err != nil {
				t.Fatalf("result %+v, %v", result, err)
			}
			if is := info.Sys().(*syscall.Stat_t); is.Uid != test.wantUID || info.Mode().Perm() != outputMode {
				t.Errorf("user %d, mode %v, want %d, %v", is.Uid, info.Mode(), test.wantUID, os.FileMode(outputMode))
			}
		})
	}
}

// TestKeptFilesOutliveTheirUser (T2) has a job with a user of its own keep files, in folders that are there and
// in new ones: they belong to the proxy's user then, nobody else may write them, and others read what the
// job let them read. Those of a user with a name stay that user's.
func TestKeptFilesOutliveTheirUser(t *testing.T) {
	t.Setenv("TMPDIR", disktest.Reachable(t))
	usual := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(usual) })
	own := &proxyproto.User{UID: 200_123, GID: 200_123, Own: true}
	for name, test := range map[string]struct {
		user *proxyproto.User
		want uint32
	}{
		"a user of its own": {own, uint32(os.Geteuid())},
		"a named user":      {nobody, nobody.UID},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			passable(t, folder)
			must(t, os.Chmod(folder, 0o777|os.ModeSticky))
			other := filepath.Join(folder, "other")
			write(t, other, "")
			must(t, os.Chown(other, 7, 7))
			const shell = "umask 0; mkdir -p d/e; echo 1 > d/one; echo 2 > d/e/two; ln -s /etc/passwd d/link; echo secret > private; chmod 600 private"
			result := runJob(t, shell, as(t, test.user), func(spec *proxyproto.Spec) {
				spec.Outputs = []proxyproto.KeptFile{
					{Path: "d", Destination: filepath.Join(folder, "new", "deep", "kept")}, {Path: "private", Destination: filepath.Join(folder, "private")},
				}
			})
			if result.Outcome != proxyproto.OutcomeExited {
				t.Fatalf("result %+v", result)
			}
			modes := map[string]os.FileMode{}
			must(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
				if err != nil || path == folder || path == other {
					return err
				}
				info, err := os.Lstat(path)
				if err != nil {
					return err
				}
				if is := info.Sys().(*syscall.Stat_t); is.Uid != test.want {
					t.Errorf("%s belongs to user %d, want %d", path, is.Uid, test.want)
				}
				modes[strings.TrimPrefix(path, folder+"/")] = info.Mode().Perm()
				return nil
			}))
			if test.user.Own {
				for path, want := range map[string]os.FileMode{"new": 0o755, "new/deep": 0o755, "new/deep/kept": 0o755, "new/deep/kept/e": 0o755, "new/deep/kept/one": 0o644, "new/deep/kept/e/two": 0o644, "private": 0o600} {
					if modes[path] != want {
						t.Errorf("%s has the mode %v, want %v", path, modes[path], want)
					}
				}
			}
			if len(modes) != 8 {
				t.Errorf("kept %v, want 8 entries", modes)
			}
			for path, want := range map[string]uint32{other: 7, "/etc/passwd": 0} {
				if info, err := os.Stat(path); err != nil || info.Sys().(*syscall.Stat_t).Uid != want {
					t.Errorf("%s, which is not the job's: %v, %v, want user %d", path, info, err, want)
				}
			}
		})
	}
}
