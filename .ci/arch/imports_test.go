package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// checkLayers refuses an import of a higher layer. Tests are held to it too: a
// test that needs a higher layer belongs to that layer.
func checkLayers(repo *repository) []breach {
	var out []breach
	level := make(map[string]int)
	for i, folders := range layers {
		for _, f := range folders {
			level[f] = i
		}
	}
	for _, f := range repo.files {
		if f.dir == "." {
			continue
		}
		from, known := level[top(f.dir)]
		if !known {
			out = append(out, breach{f.path, f.line(f.syntax.Package), fmt.Sprintf("folder %s has no layer", top(f.dir)),
				"move the package to a folder of DESIGN.md's map, or give the folder a layer in .ci/arch"})
			continue
		}
		for _, im := range f.imports {
			dir, ours := folder(im.path)
			if !ours {
				continue
			}
			if to, known := level[top(dir)]; !known || to < from {
				out = append(out, breach{f.path, im.line, fmt.Sprintf("%s imports %s, which is not below it", top(f.dir), im.path),
					"declare here the interface that is needed and let a higher layer pass it in"})
			}
		}
	}
	return out
}

// checkCycles refuses imports by which two top folders need each other, even
// where Go's own rule about packages is kept.
func checkCycles(repo *repository) []breach {
	type edge struct{ from, to string }
	sites := make(map[edge]breach)
	next := make(map[string][]string)
	for _, f := range repo.files {
		if f.test {
			continue
		}
		for _, im := range f.imports {
			dir, ours := folder(im.path)
			e := edge{top(f.dir), top(dir)}
			if _, seen := sites[e]; seen || !ours || e.from == e.to {
				continue
			}
			sites[e] = breach{f.path, im.line, fmt.Sprintf("%s imports %s, and %s comes back to %s", e.from, im.path, e.to, e.from),
				"turn one of the two around: the lower one declares an interface"}
			next[e.from] = append(next[e.from], e.to)
		}
	}
	var out []breach
	for e, site := range sites {
		if reaches(next, e.to, e.from, map[string]bool{}) {
			out = append(out, site)
		}
	}
	slices.SortFunc(out, func(a, b breach) int { return strings.Compare(a.path, b.path) })
	return out
}

func reaches(next map[string][]string, from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for _, n := range next[from] {
		if !seen[n] && reaches(next, n, to, seen) {
			return true
		}
	}
	return false
}

// checkPure holds pure packages to the part of the standard library that gives
// equal output for equal input.
func checkPure(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		i := slices.IndexFunc(pureFolders, func(p pureFolder) bool { return under(f.dir, p.dir) })
		if i < 0 || f.test {
			continue
		}
		out = append(out, impureImports(f, pureFolders[i])...)
		out = append(out, impureCode(f)...)
	}
	return out
}

func impureImports(f *sourceFile, pure pureFolder) []breach {
	var out []breach
	for _, im := range f.imports {
		switch {
		case im.name == ".":
			out = append(out, breach{f.path, im.line, "dot import of " + im.path + " hides what is used", "import it by its name"})
		case isStandard(im.path) && underAny(im.path, impurePackages):
			out = append(out, breach{f.path, im.line, fmt.Sprintf("%s is pure and imports %s", f.dir, im.path),
				"take the value as data, or move the acting part to the caller"})
		case !isStandard(im.path) && !underAny(im.path, pure.may):
			out = append(out, breach{f.path, im.line, fmt.Sprintf("%s is pure and imports %s", f.dir, im.path),
				"it may import of all that is not standard only " + strings.Join(pure.may, ", ")})
		}
	}
	return out
}

func impureCode(f *sourceFile) []breach {
	var out []breach
	f.uses(func(pkg, name string, line int) {
		shared := under(pkg, "math/rand") && !slices.Contains(seededNames, name)
		if shared || slices.Contains(impureNames[pkg], name) {
			out = append(out, breach{f.path, line, fmt.Sprintf("%s is pure and uses %s.%s", f.dir, defaultName(pkg), name),
				"let the caller pass the time, the chance or the place to write"})
		}
	})
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			out = append(out, breach{f.path, f.line(g.Pos()), f.dir + " is pure and starts a goroutine", "do the work in place, or in the caller"})
		}
		return true
	})
	return out
}

// checkActorsApart keeps actor packages from importing each other. All may
// import what sharedByActors lists. Folders of one actor may meet, but never upwards.
func checkActorsApart(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		// A fleet is agents without their work: it is put together from parts of the agent.
		if !strings.HasPrefix(f.dir, "actors/") || isTestSupport(f.dir) || f.dir == "actors/fleet" {
			continue
		}
		for _, im := range f.imports {
			dir, ours := folder(im.path)
			if !ours || !under(dir, "actors") || underAny(dir, sharedByActors) || f.test && isTestSupport(dir) {
				continue
			}
			upwards := dir != f.dir && under(f.dir, dir)
			if actorOf(dir) != actorOf(f.dir) || upwards {
				out = append(out, breach{f.path, im.line, fmt.Sprintf("%s imports %s", f.dir, im.path),
					"let the two meet in messages, or let package actors wire them together"})
			}
		}
	}
	return out
}

// actorOf gives "agent" for actors/agent/runner.
func actorOf(dir string) string {
	return top(strings.TrimPrefix(dir, "actors/"))
}

// checkDecidingHalf keeps protoactor out of the files of an actor package that
// decide.
func checkDecidingHalf(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		if f.test || !strings.HasPrefix(f.dir, "actors/") || under(f.dir, "actors/remote") {
			continue
		}
		if base := path.Base(f.path); base == "actor.go" || strings.HasSuffix(base, "_actor.go") {
			continue
		}
		for _, im := range f.imports {
			if under(im.path, protoactor) {
				out = append(out, breach{f.path, im.line, "the deciding half of " + f.dir + " imports " + im.path,
					"act in actor.go or a file named …_actor.go, and decide here from plain values"})
			}
		}
	}
	return out
}

// checkOwners keeps each owned dependency with its owners.
func checkOwners(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		for _, dep := range ownedDependencies {
			if underAny(f.dir, dep.owners) || f.test && dep.testsMay {
				continue
			}
			for _, im := range f.imports {
				if underAny(im.path, dep.imports) {
					out = append(out, dep.breach(f, im.path, im.line))
				}
			}
			f.uses(func(pkg, name string, line int) {
				if slices.Contains(dep.names[pkg], name) {
					out = append(out, dep.breach(f, defaultName(pkg)+"."+name, line))
				}
			})
		}
	}
	return out
}

func (d owned) breach(f *sourceFile, used string, line int) breach {
	return breach{f.path, line, fmt.Sprintf("%s uses %s, but %s belongs to %s", f.dir, used, d.what, strings.Join(d.owners, ", ")), d.instead}
}

// checkLean keeps the job proxy small.
func checkLean(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		if f.test || !underAny(f.dir, leanFolders) {
			continue
		}
		for _, im := range f.imports {
			dir, ours := folder(im.path)
			if isStandard(im.path) || underAny(im.path, leanModules) || ours && underAny(dir, leanFolders) {
				continue
			}
			out = append(out, breach{f.path, im.line, fmt.Sprintf("%s imports %s", f.dir, im.path),
				"use the standard library, " + strings.Join(slices.Concat(leanModules, leanFolders), ", ") + " only: one such process runs beside each job"})
		}
	}
	return out
}

// checkTestSupport keeps builders and probes out of the programs.
func checkTestSupport(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		if f.test {
			continue
		}
		for _, im := range f.imports {
			if dir, ours := folder(im.path); ours && isTestSupport(dir) {
				out = append(out, breach{f.path, im.line, f.dir + " imports " + im.path + ", which is for tests",
					"import it in _test.go files and …test packages only"})
			}
		}
	}
	return out
}
