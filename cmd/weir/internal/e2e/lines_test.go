package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
