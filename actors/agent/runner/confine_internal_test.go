package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/actors/agent/runner/proxyproto"
)

// TestWithoutRoot has a node that cannot keep jobs apart.
func TestWithoutRoot(t *testing.T) {
	r := &Runner{config: Config{Users: Users{Root: true}}, paths: layout{root: "/nowhere"}, confinement: confinement{noMounts: "agent is not root", noStrict: "agent is not root"}}
	tests := map[string]struct {
		job       JobSpec
		want      string
		wantError string
	}{
		"nothing is asked for":  {want: proxyproto.IsolationDefault},
		"none":                  {job: JobSpec{Isolation: proxyproto.IsolationNone}, want: proxyproto.IsolationNone},
		"default, without more": {job: JobSpec{Isolation: proxyproto.IsolationDefault}, want: proxyproto.IsolationDefault},
		"strict":                {job: JobSpec{Isolation: proxyproto.IsolationStrict}, wantError: "isolation strict: not supported on this node: agent is not root"},
		"tmpfs":                 {job: JobSpec{Tmpfs: []proxyproto.Tmpfs{{Path: "x", Size: 1}}}, wantError: "tmpfs: not supported on this node: agent is not root"},
	}
	for name, test := range tests {
		spec := new(proxyproto.Spec)
		err := r.confine(spec, &test.job, nil)
		switch {
		case test.wantError != "":
			if err == nil || err.Error() != test.wantError {
				t.Errorf("%s: %v, want %q", name, err, test.wantError)
			}
		case err != nil || spec.Isolation != test.want || spec.AgentMounts != "":
			t.Errorf("%s: %+v, %v, want %s without mounts of its own", name, spec, err, test.want)
		}
	}
	if text := r.Shortfall(); !strings.Contains(text, "agent is not root") || !strings.Contains(text, "isolation strict") {
		t.Errorf("shortfall %q, want what is refused and why", text)
	}
}

// TestClosedFolders are found from the top.
func TestClosedFolders(t *testing.T) {
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b", "c")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	mode := func(folder string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
	}
	for folder := top; folder != filepath.Dir(os.TempDir()) && folder != "/"; folder = filepath.Dir(folder) {
		if folder != os.TempDir() {
			mode(folder, 0o755)
		}
	}
	self := proxyproto.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	other := proxyproto.User{UID: self.UID + 4242, GID: self.GID + 4242}
	group := proxyproto.User{UID: other.UID, GID: self.GID}
	tests := map[string]struct {
		mode os.FileMode
		who  proxyproto.User
		want string
	}{
		"open to all":                  {0o711, other, ""},
		"open to its own":              {0o700, self, ""},
		"closed to others":             {0o710, other, filepath.Join(top, "a")},
		"open to its group":            {0o710, group, ""},
		"closed to its group alone":    {0o701, group, filepath.Join(top, "a")},
		"readable is not enough to go": {0o744, other, filepath.Join(top, "a")},
	}
	for name, test := range tests {
		mode(filepath.Join(top, "a"), test.mode)
		if got, err := closedFolder(deep, &test.who); err != nil || got != test.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
	}
	mode(filepath.Join(top, "a"), 0o755)
	// The folder itself is opened by the agent.
	mode(deep, 0o700)
	if hidden, err := hiddenFolder(deep, &other); err != nil || hidden != deep {
		t.Errorf("hidden is %q, %v, want %s", hidden, err, deep)
	}
}
