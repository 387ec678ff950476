package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// previousPrograms is the folder of the programs of the previous version, deploy/previous-version.
// They are built once.
func previousPrograms(t testing.TB) string {
	t.Helper()
	folder, err := buildPrevious()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

var buildPrevious = sync.OnceValues(func() (folder string, err error) {
	cmd := exec.Command(filepath.Join(repository, ".ci", "previous"))
	var said strings.Builder
	cmd.Stderr = &said
	built, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, said.String())
	}
	// Jobs, which are other users, may not reach the folder of the sources.
	folder = filepath.Join(programs, "previous")
	if err := os.CopyFS(folder, os.DirFS(strings.TrimSpace(string(built)))); err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o755)
})

// previousVersion is how the previous version calls itself.
func previousVersion(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, "deploy", "previous-version"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			return strings.Fields(line)[0]
		}
	}
	t.Fatalf("no version in %q", data)
	return ""
}
