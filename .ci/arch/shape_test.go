package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkPackageComments wants a comment on each package that begins as go doc
// wants it. Only a package that is all tests may have it in a test file.
func checkPackageComments(repo *repository) []breach {
	var out []breach
	for _, dir := range repo.goDirs() {
		files := repo.in(dir)
		if slices.ContainsFunc(files, hasPackageComment) {
			continue
		}
		f := files[0]
		out = append(out, breach{f.path, f.line(f.syntax.Package), "package " + f.syntax.Name.Name + " has no package comment",
			fmt.Sprintf("write %q in one of its files, or in doc.go past ten lines", "// "+commentStart(f)+" …")})
	}
	return out
}

func hasPackageComment(f *sourceFile) bool {
	return f.syntax.Doc != nil && strings.HasPrefix(f.syntax.Doc.Text(), commentStart(f)+" ")
}

// commentStart is how the package comment that f belongs to begins.
func commentStart(f *sourceFile) string {
	name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
	if name == "main" {
		return "Command " + path.Base(f.dir)
	}
	return "Package " + name
}

// checkPackageNames refuses names that promise no one idea.
func checkPackageNames(repo *repository) []breach {
	var out []breach
	for _, dir := range repo.goDirs() {
		if slices.Contains(emptyNames, path.Base(dir)) {
			f := repo.in(dir)[0]
			out = append(out, breach{f.path, f.line(f.syntax.Package), "package name " + path.Base(dir) + " says nothing",
				"name the package after its one idea, or move the code to where it is used"})
		}
	}
	return out
}

// checkMap wants each folder with Go code in the map of DESIGN.md. A …test
// package is at home with the package that it serves.
func checkMap(repo *repository) []breach {
	if repo.design == "" {
		return []breach{{"DESIGN.md", 1, "the page is missing", "write it, with a table of the folders below the heading Map"}}
	}
	known := mapped(repo.design)
	if len(known) == 0 {
		return []breach{{"DESIGN.md", 1, "there is no map of the folders",
			"write a table below the heading Map, with the folders in backquotes in its first column"}}
	}
	var out []breach
	for _, dir := range repo.goDirs() {
		place := dir
		if isTestSupport(dir) {
			place = path.Dir(dir)
		}
		if place != "." && !known[place] && !known[dir] {
			f := repo.in(dir)[0]
			out = append(out, breach{f.path, f.line(f.syntax.Package), "folder " + dir + " is not in DESIGN.md's map",
				"add it there with one line on what it is for, or move the code to a folder that is there"})
		}
	}
	return out
}

// mapped reads the folders out of a page: what stands in backquotes in the first
// column of the table below the heading "Map", and the folders above those.
func mapped(page string) map[string]bool {
	known := make(map[string]bool)
	inMap := false
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			inMap = strings.TrimSpace(heading) == "Map"
		}
		if !inMap || !strings.HasPrefix(line, "|") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for i, part := range strings.Split(cell, "`") {
			if i%2 == 0 {
				continue
			}
			for dir := path.Clean(part); dir != "." && dir != "/"; dir = path.Dir(dir) {
				known[dir] = true
			}
		}
	}
	return known
}

// checkTopLevel keeps the root to what a newcomer expects there.
func checkTopLevel(repo *repository) []breach {
	var out []breach
	for _, e := range repo.entries {
		allowed, list := topFiles, "topFiles"
		if e.IsDir() {
			allowed, list = topFolders, "topFolders"
		}
		if !slices.Contains(allowed, e.Name()) {
			out = append(out, breach{e.Name(), 1, "it has no place at the root",
				"move it below a folder of DESIGN.md's map; what belongs here is named there and in " + list + " of .ci/arch"})
		}
	}
	return out
}

// goDirs gives the folders with Go code, in order.
func (r *repository) goDirs() []string {
	var dirs []string
	for _, f := range r.files {
		dirs = append(dirs, f.dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// in gives the files of a folder without its tests, or the tests where there is
// nothing else.
func (r *repository) in(dir string) []*sourceFile {
	var files, tests []*sourceFile
	for _, f := range r.files {
		switch {
		case f.dir != dir:
		case strings.HasSuffix(f.path, "_test.go"):
			tests = append(tests, f)
		default:
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return tests
	}
	return files
}
