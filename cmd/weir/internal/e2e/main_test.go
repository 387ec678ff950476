package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"weir/actors/agent/disktest"
)

// programs is the folder of the built programs.
var programs string

// program returns the path of a built program.
func program(name string) string { return filepath.Join(programs, name) }

func TestMain(m *testing.M) {
	flag.Parse()
	// Each job is another user: they pass folders and read files that tests make, and several write
	// to the same file.
	syscall.Umask(0)
	// Tests wait for processes most of their time. With more at once, what has deadlines of
	// its own (elections, handshakes) fails for want of a processor.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	// Some jobs are another user.
	if folder, found := disktest.OpenFolder(); found {
		if err := os.Setenv("TMPDIR", folder); err != nil {
			return 0, err
		}
	}
	if programs, err = os.MkdirTemp("", "weir-e2e-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(programs)
	if err := os.Chmod(programs, 0o755); err != nil {
		return 0, err
	}
	for name, folder := range map[string]string{
		"weir": "weir/cmd/weir", "weir-jobproxy": "weir/cmd/weir-jobproxy", "witness": "weir/cmd/weir/internal/e2e/witness",
	} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", program(name), folder)
		if name != "weir" {
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		if output, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", folder, err, output)
		}
	}
	return m.Run(), nil
}
