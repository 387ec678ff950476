package arch

import (
	"fmt"
	"go/ast"
	"path"
)

const (
	// maxMethods is how many methods a type may have: one with more has several ideas.
	maxMethods = 50
	// maxTestLines is how long a function of a test may be: a longer one tells several stories.
	maxTestLines = 120
	// maxFiles is how many files a package may have, tests and generated code aside.
	maxFiles = 50
)

// checkSize refuses types with too many methods and packages with too many files.
func checkSize(repo *repository) []breach {
	var out []breach
	for _, dir := range repo.goDirs() {
		var code []*sourceFile
		methods := map[string]int{}
		for _, f := range repo.in(dir) {
			if f.test || ast.IsGenerated(f.syntax) {
				continue
			}
			code = append(code, f)
			for _, decl := range f.syntax.Decls {
				if name := receiver(decl); name != "" {
					methods[name]++
				}
			}
		}
		if len(code) > maxFiles {
			out = append(out, breach{code[0].path, 1, fmt.Sprintf("package %s has %d files, more than %d", path.Base(dir), len(code), maxFiles),
				"move an idea of its own to a package of its own"})
		}
		for _, f := range code {
			for _, t := range declaredTypes(f.syntax) {
				name := t.Name.Name
				if methods[name] > maxMethods {
					out = append(out, breach{f.path, f.line(t.Pos()), fmt.Sprintf("%s has %d methods, more than %d", name, methods[name], maxMethods),
						"give a concern, with the fields that it owns, a type of its own"})
				}
			}
		}
	}
	return out
}

// checkTests refuses functions of tests that are too long to read.
func checkTests(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		if !f.test {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if lines := f.line(fn.Body.Rbrace) - f.line(fn.Body.Lbrace) - 1; lines > maxTestLines {
				out = append(out, breach{f.path, f.line(fn.Pos()), fmt.Sprintf("%s has %d lines, more than %d", fn.Name.Name, lines, maxTestLines),
					"split it by theme, with a runner that they share"})
			}
		}
	}
	return out
}

// receiver returns the name of the type that a declaration is a method of, "" if it is none.
func receiver(decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok || f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func declaredTypes(file *ast.File) []*ast.TypeSpec {
	var out []*ast.TypeSpec
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.GenDecl); ok {
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					out = append(out, t)
				}
			}
		}
	}
	return out
}
