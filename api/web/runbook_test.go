package web

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRunbook (W1): each problem that replicas report of the cluster has an entry in the page's runbook, and each entry names a place in
// the documentation that there is.
func TestRunbook(t *testing.T) {
	source, err := os.ReadFile("src/lib/runbook.ts")
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`\{ pattern: /(.+)/, text: '.+', commands: \[.*\], page: '(.+)' \}`)
	var patterns []*regexp.Regexp
	for _, found := range entry.FindAllStringSubmatch(string(source), -1) {
		patterns = append(patterns, regexp.MustCompile(found[1]))
		file, section, _ := strings.Cut(found[2], "#")
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Errorf("%s: %v", found[2], err)
		}
		if section != "" && !hasSection(string(text), section) {
			t.Errorf("%s has no section %s", file, section)
		}
	}
	if len(patterns) != strings.Count(string(source), "pattern: /") || len(patterns) < 10 {
		t.Fatalf("%d entries are read", len(patterns))
	}
	for _, problem := range problems(t) {
		known := false
		for _, pattern := range patterns {
			known = known || pattern.MatchString(problem)
		}
		if !known {
			t.Errorf("the runbook has nothing about %q", problem)
		}
	}
}

// problems returns the problems that replicas report, with the verbs of their formats.
func problems(t *testing.T) (all []string) {
	t.Helper()
	said := regexp.MustCompile(`(?:\badd\(|\.problem\(|problems = append\(problems, fmt\.Sprintf\(|Problems = append\(out\.Problems, fmt\.Sprintf\(|return fmt\.Sprintf\()"([^"]{20,})"`)
	for _, file := range []string{"../health.go", "../clusters.go", "../../cluster/clock/compare.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range said.FindAllStringSubmatch(string(source), -1) {
			all = append(all, found[1])
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d problems are found: %q", len(all), all)
	}
	return all
}

// hasSection reports whether a page has a heading with an anchor.
func hasSection(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") &&
			strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-") == anchor {
			return true
		}
	}
	return false
}
