package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

func TestOutputsThatCannotBeKept(t *testing.T) {
	disk := disktest.Small(t, 1<<20)
	tests := map[string]struct {
		output    string
		shell     string
		wantError []string
	}{
		"the disk is full": {
			output: filepath.Join(disk, "part"), shell: "cat > /dev/null; while :; do echo 0123456789abcdef0123456789abcdef; done",
			wantError: []string{"no space left on device", "the file system at " + disk + " has 0 bytes free of 1048576"},
		},
		"the disk is full, and the command does not care": {
			output: filepath.Join(disk, "part"), shell: "cat > /dev/null; trap '' PIPE; head -c 3000000 /dev/zero; exit 0",
			wantError: []string{"no space left on device"},
		},
		"there is no such folder": {output: filepath.Join(disk, "none", "part"), shell: "cat", wantError: []string{"none/.part.partial: no such file or directory"}},
		"a folder is in the way":  {output: disk, shell: "cat", wantError: []string{"output part-7: write"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result := runJob(t, test.shell, fed(test.output, records.Lines, input(t, "a\n")))
			if result.Outcome != proxyproto.OutcomeOutputFailed || result.Output != nil {
				t.Fatalf("result %+v, want the output to have failed", result)
			}
			for _, want := range test.wantError {
				if !strings.Contains(result.Error, want) {
					t.Errorf("error %q, want %q", result.Error, want)
				}
			}
			emptyFolder(t, disk)
			if _, err := os.Stat(partial(test.output)); err == nil {
				t.Errorf("%s is there still", partial(test.output))
			}
		})
	}
}

func TestKeptFiles(t *testing.T) {
	tests := map[string]struct {
		shell     string
		path      string
		before    func(t *testing.T, destination string)
		want      map[string]string
		wantError string
	}{
		"a file": {shell: "echo kept > result", path: "result", want: map[string]string{"kept": "kept\n"}},
		"a file in place of another": {
			shell: "echo new > result", path: "result", before: func(t *testing.T, destination string) { write(t, destination, "old") },
			want: map[string]string{"kept": "new\n"},
		},
		"a folder": {
			shell: "mkdir -p d/e; echo 1 > d/one; echo 2 > d/e/two; ln -s one d/link", path: "d",
			want: map[string]string{"kept/one": "1\n", "kept/e/two": "2\n", "kept/link": "1\n"},
		},
		"a folder in place of another": {
			shell: "mkdir d; echo 1 > d/one", path: "d/", before: func(t *testing.T, destination string) {
				must(t, os.Mkdir(destination, 0o700))
				write(t, filepath.Join(destination, "old"), "old")
			},
			want: map[string]string{"kept/one": "1\n"},
		},
		"what the job has not made":         {shell: "true", path: "result", wantError: "keep result as {}: the job has not created it"},
		"a pipe":                            {shell: "mkfifo result", path: "result", wantError: "it is neither a file, a folder nor a link"},
		"a link out of the workspace":       {shell: "ln -s /etc d", path: "d/passwd", wantError: "escapes"},
		"a pipe in a folder":                {shell: "mkdir d; mkfifo d/pipe", path: "d", wantError: "keep d as {}: pipe: it is neither a file"},
		"nothing, of a job that has failed": {shell: "echo kept > result; exit 1", path: "result"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			destination := filepath.Join(folder, "kept")
			if test.before != nil {
				test.before(t, destination)
			}
			result := runJob(t, test.shell, func(spec *proxyproto.Spec) {
				spec.Outputs = []proxyproto.KeptFile{{Path: test.path, Destination: destination}}
			})
			if wantError := strings.ReplaceAll(test.wantError, "{}", destination); wantError != "" {
				if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, wantError) {
					t.Errorf("result %+v, want error %q", result, wantError)
				}
			} else if result.Outcome != proxyproto.OutcomeExited {
				t.Errorf("result %+v, want it to have exited", result)
			}
			got := map[string]string{}
			must(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				got[strings.TrimPrefix(path, folder+"/")] = string(data)
				return err
			}))
			if test.want == nil {
				test.want = map[string]string{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if test.want["kept"] == "" && test.want["kept/one"] == "" {
				emptyFolder(t, folder)
			}
		})
	}
}

// TestKeptFilesInNewFolders: what is missing of the way to a destination is made.
func TestKeptFilesInNewFolders(t *testing.T) {
	folder := t.TempDir()
	must(t, os.Symlink(folder, filepath.Join(folder, "link")))
	write(t, filepath.Join(folder, "file"), "")
	for way, wantError := range map[string]string{"a/b/c": "", "link/a/d": "", "file/a": "not a directory"} {
		destination := filepath.Join(folder, way, "kept")
		result := runJob(t, "echo kept > result", func(spec *proxyproto.Spec) {
			spec.Outputs = []proxyproto.KeptFile{{Path: "result", Destination: destination}}
		})
		if wantError != "" {
			if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, wantError) {
				t.Errorf("%s: result %+v, want %q", way, result, wantError)
			}
			continue
		}
		if got, err := os.ReadFile(destination); err != nil || string(got) != "kept\n" {
			t.Errorf("%s: result %+v, kept %q, %v", way, result, got, err)
		}
	}
}

// TestOneMissingFileKeepsAll: of several files that are to be kept nothing is when one is
// missing.
func TestOneMissingFileKeepsAll(t *testing.T) {
	folder := t.TempDir()
	result := runJob(t, "echo 1 > one; cat", fed(filepath.Join(folder, "part"), records.Lines, input(t, "a\n")), func(spec *proxyproto.Spec) {
		spec.Outputs = []proxyproto.KeptFile{{Path: "one", Destination: filepath.Join(folder, "one")}, {Path: "two", Destination: filepath.Join(folder, "two")}}
	})
	if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, "keep two as") || result.Output != nil {
		t.Errorf("result %+v, want the missing file named", result)
	}
	emptyFolder(t, folder)
}

// TestAFailureTakesBackWhatWasPlaced: of several files the last cannot be put in its place;
// the others are as they were, and there are no copies.
func TestAFailureTakesBackWhatWasPlaced(t *testing.T) {
	folder := t.TempDir()
	stuck := filepath.Join(folder, "stuck")
	must(t, os.Mkdir(stuck, 0o755))
	must(t, os.Mkdir(filepath.Join(folder, "full"), 0o755))
	write(t, filepath.Join(folder, "old"), "before")
	write(t, filepath.Join(folder, "full", "old"), "before")
	result := runJob(t, "echo new > one; mkdir two; echo new > two/file; echo new > three; echo new > four", func(spec *proxyproto.Spec) {
		spec.Outputs = []proxyproto.KeptFile{
			{Path: "one", Destination: filepath.Join(folder, "old")}, {Path: "two", Destination: filepath.Join(folder, "full")},
			{Path: "three", Destination: filepath.Join(folder, "new")}, {Path: "four", Destination: stuck + "/."},
		}
	})
	if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, "keep four as") || strings.Contains(result.Error, "left in place") {
		t.Errorf("result %+v, want the last file named, and nothing that stays", result)
	}
	got := map[string]string{}
	must(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		got[strings.TrimPrefix(path, folder+"/")] = string(data)
		return err
	}))
	if diff := cmp.Diff(map[string]string{"old": "before", "full/old": "before"}, got); diff != "" {
		t.Errorf("what is there (-want +got):\n%s", diff)
	}
}

// TestWhatCannotBeTakenBackIsTold with the cause.
func TestWhatCannotBeTakenBackIsTold(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "aside"), "new")
	p := placing{stays: []string{"http://store/bucket/one"}}
	must(t, p.place(filepath.Join(folder, "aside"), filepath.Join(folder, "two"), filepath.Join(folder, "two")))
	must(t, os.Remove(filepath.Join(folder, "two")))
	err := p.takeBack(errors.New("keep three as /data/three: device or resource busy"))
	want := "keep three as /data/three: device or resource busy; these copies are left in place: http://store/bucket/one, " +
		filepath.Join(folder, "two") + " (no such file or directory)"
	if err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestKeptFilesOnAFullDisk(t *testing.T) {
	disk := disktest.Small(t, 1<<20)
	result := runJob(t, "head -c 2000000 /dev/zero > result", func(spec *proxyproto.Spec) {
		spec.Outputs = []proxyproto.KeptFile{{Path: "result", Destination: filepath.Join(disk, "result")}}
	})
	if result.Outcome != proxyproto.OutcomeOutputFailed || !strings.Contains(result.Error, "the file system at "+disk+" has") {
		t.Errorf("result %+v, want the disk named", result)
	}
	emptyFolder(t, disk)
}

// TestExplainSpace: other errors are told as they are.
func TestExplainSpace(t *testing.T) {
	if err := explainSpace("/tmp/x", os.ErrClosed); err.Error() != os.ErrClosed.Error() {
		t.Errorf("got %v", err)
	}
	if got := mountPoint("/proc/self/task"); got != "/proc" {
		t.Errorf("the mount point of /proc/self/task is %s", got)
	}
}

// TestWriteBehind: what is copied is on disk but for the last block, so that the end of a copy
// to a slow disk does not look as if it hung.
func TestWriteBehind(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	must(t, err)
	defer file.Close()
	var in unix.Statfs_t
	must(t, unix.Fstatfs(int(file.Fd()), &in))
	if in.Type == unix.TMPFS_MAGIC {
		t.Skip("a tmpfs writes nothing to a disk")
	}
	block := bytes.Repeat([]byte("x"), copyBlock)
	for at := int64(0); at < 2*copyBlock; at += copyBlock {
		_, err = file.Write(block)
		must(t, err)
		writeBehind(file, at)
	}
	var cached unix.Cachestat_t
	err = unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{Off: 0, Len: copyBlock}, &cached, 0)
	if errors.Is(err, unix.ENOSYS) {
		t.Skip("the kernel is older than cachestat")
	}
	must(t, err)
	if waiting := cached.Dirty + cached.Writeback; waiting > 0 {
		t.Errorf("%d pages of the first block wait for the disk still", waiting)
	}
}
