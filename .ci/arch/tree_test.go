package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// repository is what the rules look at.
type repository struct {
	files   []*sourceFile
	entries []fs.DirEntry // At the root, without what .gitignore names.
	design  string        // DESIGN.md, empty when there is none.
	logKeys string        // docs/logs.md, empty when there is none.
}

// sourceFile is one parsed Go file.
type sourceFile struct {
	path    string // From the root, with slashes.
	dir     string // "." for the root itself.
	test    bool   // A _test.go file, or any file of a …test package.
	fset    *token.FileSet
	syntax  *ast.File
	imports []imported
}

// imported is one import of a file.
type imported struct {
	path string
	name string // As the file speaks of it.
	line int
}

// breach is one place where a rule is broken and what to do about it.
type breach struct {
	path string
	line int
	what string
	fix  string
}

func (b breach) String() string {
	return fmt.Sprintf("%s:%d: %s; %s", b.path, b.line, b.what, b.fix)
}

// readRepository parses every Go file of the tree but those in testdata and in
// folders that begin with a dot or an underscore or are ignored by git.
func readRepository(fsys fs.FS) (*repository, error) {
	repo := &repository{}
	design, err := fs.ReadFile(fsys, "DESIGN.md")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	repo.design = string(design)
	logKeys, err := fs.ReadFile(fsys, "docs/logs.md")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	repo.logKeys = string(logKeys)

	ignored, err := ignorePatterns(fsys)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == ".git" || matchesAny(ignored, e.Name()) {
			continue
		}
		repo.entries = append(repo.entries, e)
		if err := repo.readFiles(fsys, e.Name()); err != nil {
			return nil, err
		}
	}
	return repo, nil
}

func (r *repository) readFiles(fsys fs.FS, top string) error {
	return fs.WalkDir(fsys, top, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(p) != ".go" {
			return nil
		}
		file, err := readFile(fsys, p)
		if err != nil {
			return err
		}
		r.files = append(r.files, file)
		return nil
	})
}

func readFile(fsys fs.FS, p string) (*sourceFile, error) {
	text, err := fs.ReadFile(fsys, p)
	if err != nil {
		return nil, err
	}
	f := &sourceFile{path: p, dir: path.Dir(p), fset: token.NewFileSet()}
	f.test = strings.HasSuffix(p, "_test.go") || isTestSupport(f.dir)
	f.syntax, err = parser.ParseFile(f.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, spec := range f.syntax.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", p, spec.Path.Value, err)
		}
		name := defaultName(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		f.imports = append(f.imports, imported{path: target, name: name, line: f.line(spec.Pos())})
	}
	return f, nil
}

func (f *sourceFile) line(pos token.Pos) int {
	return f.fset.Position(pos).Line
}

// uses calls visit for every pkg.Name in the file, with pkg's import path.
func (f *sourceFile) uses(visit func(pkg, name string, line int)) {
	byName := make(map[string]string, len(f.imports))
	for _, im := range f.imports {
		byName[im.name] = im.path
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && byName[x.Name] != "" {
			visit(byName[x.Name], selector.Sel.Name, f.line(selector.Pos()))
		}
		return true
	})
}

// defaultName is the name of an import that is not renamed: the last element
// of its path that is not a version.
func defaultName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// folder gives the directory of a package of this module.
func folder(importPath string) (dir string, ours bool) {
	if importPath == "weir" {
		return ".", true
	}
	return strings.CutPrefix(importPath, "weir/")
}

// isStandard tells a package of the standard library: no dot in its first element.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return first != "weir" && !strings.Contains(first, ".")
}

// isTestSupport tells a package of builders and probes for tests.
func isTestSupport(dir string) bool {
	return dir != "." && strings.HasSuffix(path.Base(dir), "test")
}

// under tells whether p is dir or lies below it.
func under(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

func underAny(p string, dirs []string) bool {
	for _, dir := range dirs {
		if under(p, dir) {
			return true
		}
	}
	return false
}

func top(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

func ignorePatterns(fsys fs.FS) ([]string, error) {
	text, err := fs.ReadFile(fsys, ".gitignore")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var patterns []string
	for line := range strings.Lines(string(text)) {
		if p := strings.Trim(strings.TrimSpace(line), "/"); p != "" && p[0] != '#' {
			patterns = append(patterns, p)
		}
	}
	return patterns, nil
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}
