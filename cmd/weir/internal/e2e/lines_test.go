package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// witnessed are the lines that jobs wrote, by the file of their cookie.
func witnessed(t testing.TB, dir string) map[string][]line {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]line{}
	for _, file := range files {
		name := filepath.Base(file)
		lines[name[:len(name)-len(".log")]] = readLines(t, file)
	}
	if broken, err := os.ReadFile(filepath.Join(dir, "violations")); err == nil {
		t.Errorf("two attempts of a cookie ran at once:\n%s", broken)
	}
	return lines
}

// line is what a witness wrote.
type line struct {
	job  string
	pid  int
	what string
}

func readLines(t testing.TB, file string) (lines []line) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for text := range bytes.Lines(data) {
		var l line
		if _, err := fmt.Sscan(string(text), &l.job, &l.pid, &l.what); err != nil {
			t.Fatalf("%s: %q: %v", file, text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// pidInside returns the number by which a process knows itself: a job may have process ids of its own.
func pidInside(t testing.TB, pid int64) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	numbers := strings.Fields(line)
	inside, err := strconv.Atoi(numbers[len(numbers)-1])
	if err != nil {
		t.Fatal(err)
	}
	return inside
}
