package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named is a test, benchmark or fuzz target, in the folder of its package.
type named struct{ folder, name string }

var (
	// A folder stands in backticks before the tests that are in it.
	requirementPart = regexp.MustCompile("`[^`]+`|\\b(?:Test|Benchmark|Fuzz)[A-Z]\\w*")
	// A comment names the rows right behind the name of the test.
	rowsNamed = regexp.MustCompile(`^\w+ \(([^)]+)\)`)
	row       = regexp.MustCompile(`^[A-Z]\d+b?$`)
)

// requirements returns the tests that each row of docs/requirements.md names.
func requirements(t *testing.T) map[string][]named {
	t.Helper()
	page, err := os.ReadFile("docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]named{}
	for line := range strings.Lines(string(page)) {
		cells := strings.SplitN(line, "|", 3)
		if len(cells) < 3 || !row.MatchString(strings.TrimSpace(cells[1])) {
			continue
		}
		id, folder := strings.TrimSpace(cells[1]), ""
		rows[id] = nil
		for _, part := range requirementPart.FindAllString(cells[2], -1) {
			if quoted := strings.Trim(part, "`"); quoted != part {
				if info, err := os.Stat(quoted); err == nil && info.IsDir() {
					folder = quoted
				}
				continue
			}
			rows[id] = append(rows[id], named{folder, part})
		}
	}
	return rows
}

// tests returns all tests of the module with their comments.
func tests(t *testing.T) map[named]string {
	t.Helper()
	all := map[named]string{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && requirementPart.MatchString(f.Name.Name) {
				all[named{filepath.Dir(path), f.Name.Name}] = f.Doc.Text()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mustRunProcesses are the rows that are shown by real processes, and whose tests say so: by
// agents and job proxies, or by whole clusters.
var mustRunProcesses = []string{"I1", "I2", "I4", "I5", "M5", "M9", "X4", "X7"}

// withProcesses are the folders of tests that run real processes.
var withProcesses = []string{"cmd/weir/internal/e2e", "actors/agent", "actors/agent/runner"}

// TestRequirements holds docs/requirements.md: each test that it names is there, and each test
// that says in its comment which rows it shows is named by them.
func TestRequirements(t *testing.T) {
	t.Chdir("../..")
	rows, all := requirements(t), tests(t)
	shows := func(test named, id string) bool {
		said := rowsNamed.FindStringSubmatch(all[test])
		return said != nil && slices.Contains(strings.Split(said[1], ", "), id)
	}
	for id, of := range rows {
		for _, test := range of {
			if _, ok := all[test]; !ok {
				t.Errorf("row %s names %s in %q: there is none", id, test.name, test.folder)
			}
		}
	}
	for test := range all {
		said := rowsNamed.FindStringSubmatch(all[test])
		if said == nil {
			continue
		}
		for id := range strings.SplitSeq(said[1], ", ") {
			if row.MatchString(id) && !slices.Contains(rows[id], test) {
				t.Errorf("%s in %s shows row %s, which does not name it", test.name, test.folder, id)
			}
		}
	}
	for _, id := range mustRunProcesses {
		if !slices.ContainsFunc(rows[id], func(test named) bool { return slices.Contains(withProcesses, test.folder) && shows(test, id) }) {
			t.Errorf("row %s names no test of %s whose comment names the row", id, strings.Join(withProcesses, ", "))
		}
	}
}
