package runner_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/actors/agent/disktest"
	"weir/actors/agent/runner"
	"weir/actors/agent/runner/proxyproto"
)

// wellKnown is a text that is in no job's files, but in a file of each machine.
const wellKnown = "root:"

// makesFiles makes what TestFilesOfJobs reads.
const makesFiles = `echo text > note; mkdir sub; seq 100000 > sub/long; ln -s sub/long within; ln -s /etc/passwd out; ln -s ../../../../../../etc up; ln -s /proc/self/root proc
ln -s loop loop; echo closed > closed; chmod 0 closed; mkfifo pipe; (echo x > pipe; echo the pipe was opened) & echo ram > ram/file
mkdir many; i=0; while [ $i -lt 600 ]; do : > many/f$i; i=$((i+1)); done; echo text > swap
echo ready; while :; do ln -sf /etc/passwd new; mv -T new swap; echo text > new2; mv -T new2 swap; done`

// TestFilesOfJobs (T2) reads the files of a job in each isolation: what is in its workspace and in a tmpfs, as the job's user. Nothing else
// of the node is read: not through links, not while the job exchanges a file for a link, not with the rights of the agent; and
// to read opens no pipe.
func TestFilesOfJobs(t *testing.T) {
	needsRoot(t)
	for _, isolation := range proxyproto.Isolations {
		t.Run(isolation, func(t *testing.T) {
			f := newFixture(t, backends["as a process tree"], everyWay(t))
			other := f.start(t, runner.JobSpec{ID: "other", Isolation: isolation, Shell: "echo theirs > secret; chmod 0666 secret; echo ready; sleep 1000"})
			f.awaitOutput(t, other, 1)
			job := f.start(t, runner.JobSpec{Isolation: isolation, Tmpfs: []proxyproto.Tmpfs{{Path: "ram", Size: 1 << 20}}, Shell: makesFiles})
			f.awaitOutput(t, job, 1)
			workspace := filepath.Join(f.config.Root, "jobs", "job", proxyproto.WorkspaceFolder)
			if err := os.WriteFile(filepath.Join(workspace, "agents"), []byte("the agent's"), 0o600); err != nil {
				t.Fatal(err)
			}
			for name, test := range map[string]struct {
				path   string
				offset int64
				// want is the text, or a part of the error.
				want, wantErr string
			}{
				"a file":               {path: "note", want: "text\n"},
				"from the middle":      {path: "./note", offset: 2, want: "xt\n"},
				"behind the end":       {path: "note", offset: 99},
				"as the job names it":  {path: workspace + "/note", want: "text\n"},
				"the first part":       {path: "sub/long", want: "1\n2\n3\n4\n5\n6\n7\n8\n"},
				"a link within":        {path: "within", offset: 2, want: "2\n3\n4\n5\n6\n7\n8\n9\n"},
				"of a tmpfs":           {path: "ram/file", want: "ram\n"},
				"none":                 {path: "nothing", wantErr: "no such file"},
				"below a file":         {path: "note/x", wantErr: "no such file"},
				"a link out":           {path: "out", wantErr: "leads out of the job's workspace"},
				"through a link out":   {path: "up/passwd", wantErr: "leads out of the job's workspace"},
				"through /proc":        {path: "proc/etc/passwd", wantErr: "leads out of the job's workspace"},
				"a link to itself":     {path: "loop", wantErr: "too many levels"},
				"above":                {path: "../spec.json", wantErr: "leads out of the job's workspace"},
				"another job's":        {path: "../../other/work/secret", wantErr: "leads out of the job's workspace"},
				"another job's, whole": {path: filepath.Join(f.config.Root, "jobs", "other", "work", "secret"), wantErr: "leads out of the job's workspace"},
				"the node's":           {path: "/etc/passwd", wantErr: "leads out of the job's workspace"},
				"a process's":          {path: "/proc/1/environ", wantErr: "leads out of the job's workspace"},
				"a zero byte":          {path: "note\x00", wantErr: "zero byte"},
				"what it may not read": {path: "closed", wantErr: "permission denied"},
				"the agent's":          {path: "agents", wantErr: "permission denied"},
				"a pipe":               {path: "pipe", wantErr: "neither a file nor a folder"},
			} {
				part, err := f.ReadFile(job.ID(), test.path, test.offset, 16)
				if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) || string(part.Data) != test.want {
					t.Errorf("%s: %q, %v, want %q %s", name, part.Data, err, test.want, test.wantErr)
				}
			}
			for range 3000 {
				if part, err := f.ReadFile(job.ID(), "swap", 0, 1<<10); strings.Contains(string(part.Data), wellKnown) {
					t.Fatalf("the job showed %q, %v", part.Data, err)
				}
			}
			if text := f.output(t, job.ID(), "stdout"); text != "ready\n" {
				t.Errorf("the job says %q", text)
			}
			checkFolders(t, f, job)
			if err := job.Stop("enough", 0); err != nil {
				t.Fatal(err)
			}
			finished(t, job)
			if _, err := f.ReadFile(job.ID(), "note", 0, 16); !errors.Is(err, runner.ErrNoFile) {
				t.Errorf("a file of a job that has ended: %v", err)
			}
		})
	}
}

// checkFolders lists the folders of the job of TestFilesOfJobs.
func checkFolders(t *testing.T, f *fixture, job *runner.Job) {
	t.Helper()
	part, err := f.ReadFile(job.ID(), "", 0, 16)
	if err != nil || !part.Folder || part.More || part.Next != part.Size {
		t.Errorf("the workspace: %+v, %v", part, err)
	}
	seen := map[string]string{}
	for _, e := range part.Entries {
		seen[e.Name] = e.Mode.String()[:1] + e.Link
	}
	for name, want := range map[string]string{"note": "-", "sub": "d", "pipe": "p", "out": "L/etc/passwd", "ram": "d", "agents": "-"} {
		if seen[name] != want {
			t.Errorf("%s is listed as %q, want %q", name, seen[name], want)
		}
	}
	var names []string
	for offset := int64(0); ; {
		if part, err = f.ReadFile(job.ID(), "many", offset, 16); err != nil {
			t.Fatal(err)
		}
		for _, e := range part.Entries {
			names = append(names, e.Name)
		}
		if offset = part.Next; offset == part.Size {
			break
		}
	}
	if len(names) != 600 || !slices.IsSorted(names) || len(slices.Compact(names)) != 600 {
		t.Errorf("%d names, want 600 in order", len(names))
	}
}

// TestKeptFiles (T2) reads what was kept of jobs: as their named user or with the rights that everybody has, never with those of the agent,
// which links put in its place would abuse.
func TestKeptFiles(t *testing.T) {
	needsRoot(t)
	f := newFixture(t, backends["as a process tree"], own)
	folder, err := os.MkdirTemp(disktest.Reachable(t), "weir-kept-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	kept := filepath.Join(folder, "kept")
	prepare := exec.Command("sh", "-c", `mkdir kept kept/sub; echo text > kept/note; echo below > kept/sub/file; ln -s /etc/shadow kept/shadow; ln -s note kept/alias
echo private > kept/private; chmod 0600 kept/private; echo theirs > kept/theirs; chown 4242:4242 kept/theirs; chmod 0600 kept/theirs; mkfifo kept/pipe
ln -s /etc/shadow shadow; ln -s /proc/self maps; chmod 0755 . kept kept/sub`)
	prepare.Dir = folder
	if text, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name, test := range map[string]struct{ kept, user, path, want, wantErr string }{
		"a file":                     {kept: kept + "/note", want: "text\n"},
		"below a folder":             {kept: kept, path: "sub/file", want: "below\n"},
		"a link within":              {kept: kept, path: "alias", want: "text\n"},
		"none":                       {kept: kept, path: "nothing", wantErr: "no such file"},
		"above":                      {kept: kept + "/sub", path: "../note", wantErr: "leads out of what was kept"},
		"a link out":                 {kept: kept, path: "shadow", wantErr: "leads out of what was kept"},
		"a link in its place":        {kept: folder + "/shadow", wantErr: "permission denied"},
		"the agent's process":        {kept: folder + "/maps", path: "maps", wantErr: "leads out of what was kept"},
		"the agent's process, whole": {kept: folder + "/maps/maps", wantErr: "leads out of what was kept"},
		"not for everybody":          {kept: kept, path: "private", wantErr: "permission denied"},
		"another user's":             {kept: kept, path: "theirs", wantErr: "permission denied"},
		"the user's":                 {kept: kept, user: "4242", path: "theirs", want: "theirs\n"},
		"the agent's, as the user":   {kept: kept, user: "4242", path: "private", wantErr: "permission denied"},
		"root's":                     {kept: kept, user: "root", path: "private", wantErr: "root"},
		"a pipe":                     {kept: kept + "/pipe", wantErr: "neither a file nor a folder"},
		"a relative path":            {kept: "kept/note", wantErr: "absolute path"},
	} {
		part, err := f.ReadKept(test.kept, test.user, "", test.path, 0, 64)
		if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) || string(part.Data) != test.want {
			t.Errorf("%s: %q, %v, want %q %s", name, part.Data, err, test.want, test.wantErr)
		}
	}
	if part, err := f.ReadKept(kept, "", "", "", 0, 64); err != nil || len(part.Entries) != 7 {
		t.Errorf("the list of what was kept: %+v, %v", part, err)
	}
}
