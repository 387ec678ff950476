package bench

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// programs is the folder of the built programs.
var programs string

// summary has a line a figure, which TestMain prints last.
var summary []string

func TestMain(m *testing.M) {
	if told := os.Getenv(floodVariable); told != "" {
		if err := runFlood(told); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if told := os.Getenv(scaleVariable); told != "" {
		if err := runNodes(told); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		// There is nothing else here.
		os.Exit(m.Run())
	}
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	for _, line := range summary {
		fmt.Println(line)
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(programs)
	// As make build does.
	for name, cmd := range map[string]*exec.Cmd{
		"weir":          exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", program("weir"), "weir/cmd/weir"),
		"weir-jobproxy": exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", program("weir-jobproxy"), "weir/cmd/weir-jobproxy"),
	} {
		cmd.Env = os.Environ()
		if name == "weir-jobproxy" {
			cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
		}
		if output, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return m.Run(), nil
}

func program(name string) string { return filepath.Join(programs, name) }

// tell adds a line to the summary.
func tell(format string, args ...any) { summary = append(summary, fmt.Sprintf(format, args...)) }

// times are measurements of the same thing.
type times []time.Duration

// percentile returns the time that so many hundredths of the others do not exceed.
func (t times) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func (t times) worst() time.Duration { return slices.Max(t) }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
