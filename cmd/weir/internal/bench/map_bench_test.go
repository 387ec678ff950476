package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// textSize is the input of a map, textJobs into how many jobs it is cut.
	textSize = 512 << 20
	textJobs = 8
)

// BenchmarkMapOfText is map operations over real text, and beside each the same command
// reading the same file from a pipe: from the call that submits the operation to the
// answer that its output is in its place. What bounds it: each byte goes once through a
// pipe into the command and once through the counts and hashes of the job proxy, each job
// is started, committed and ended, and the parts are put together once more.
func BenchmarkMapOfText(b *testing.B) {
	text := realText(b)
	c := startCluster(b, "default")
	for _, command := range [][]string{{"grep", "-c", "func"}, {"tr", "a-z", "A-Z"}, {"gzip", "-1"}} {
		b.Run(command[0], func(b *testing.B) {
			for b.Loop() {
				output := filepath.Join(files(b), "output")
				began := time.Now()
				c.complete(b, c.submitMap(b, text, output, command), textJobs)
				ours := time.Since(began)
				plain := plainPipe(b, text, output+".plain", command)
				if command[0] == "tr" {
					wantEqual(b, output, output+".plain")
				}
				rate, pipe := textSize/1e6/ours.Seconds(), textSize/1e6/plain.Seconds()
				b.ReportMetric(rate, "MB/s")
				b.ReportMetric(pipe, "pipe-MB/s")
				b.ReportMetric(rate/pipe, "ratio-of-pipe")
				tell("map: %s over %d MiB in %d jobs: %.0f MB/s, %.2f of a plain pipe (%.0f MB/s)",
					strings.Join(command, " "), textSize>>20, textJobs, rate, rate/pipe, pipe)
			}
		})
	}
}

// submitMap starts a map operation of a command over a file.
func (c *cluster) submitMap(b *testing.B, input, output string, command []string) (operation string) {
	b.Helper()
	argv := make([]any, len(command))
	for i, word := range command {
		argv[i] = word
	}
	return c.start(b, map[string]any{
		"type": "map", "input_paths": []any{input}, "output_path": output, "format": "lines", "job_count": textJobs,
		"mapper": map[string]any{"command": argv, "cpu_limit": 2, "memory_limit": "1GiB"},
	})
}

// plainPipe runs a command on the machine itself, its input coming through a pipe.
func plainPipe(b *testing.B, input, output string, command []string) time.Duration {
	b.Helper()
	in, err := os.Open(input)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(output)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(b.Context(), command[0], command[1:]...)
	// A reader that is no file is copied through a pipe.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = struct{ io.Reader }{in}, out, os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func wantEqual(b *testing.B, got, want string) {
	b.Helper()
	if printed, err := exec.CommandContext(b.Context(), "cmp", got, want).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, printed)
	}
}

// realText makes a file of Go's own sources, again and again, whose last line has an end.
func realText(b *testing.B) string {
	b.Helper()
	root, err := exec.CommandContext(b.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	var once bytes.Buffer
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		once.Write(data)
		return err
	})
	if err != nil || once.Len() == 0 {
		b.Fatal(fmt.Errorf("text of %d bytes: %w", once.Len(), err))
	}
	path := filepath.Join(files(b), "text")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	for left := textSize - 1; left > 0 && err == nil; {
		n := min(left, once.Len())
		_, err = file.Write(once.Bytes()[:n])
		left -= n
	}
	if err == nil {
		_, err = file.WriteString("\n")
	}
	if err := errors.Join(err, file.Close()); err != nil {
		b.Fatal(err)
	}
	return path
}
