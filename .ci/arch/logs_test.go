package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// logLevels are the methods of a logger, by how many arguments stand before the
// keys.
var logLevels = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2,
}

// checkLogKeys wants each key of a log line in the table of docs/logs.md, so that
// one word means one thing in all logs.
func checkLogKeys(repo *repository) []breach {
	known := tableOf(repo.logKeys)
	if len(known) == 0 {
		return []breach{{"docs/logs.md", 1, "there is no table of the keys of log lines",
			"write one, with the keys in backquotes in its first column"}}
	}
	var out []breach
	for _, f := range repo.files {
		if f.test {
			continue
		}
		for _, key := range keysIn(f.syntax) {
			name, err := strconv.Unquote(key.Value)
			if err != nil || !slices.Contains(known, name) {
				out = append(out, breach{f.path, f.line(key.Pos()), fmt.Sprintf("log key %s is not in docs/logs.md", key.Value),
					"use the key that is there for this, or add it with its meaning"})
			}
		}
	}
	return out
}

// keysIn gives the literal keys of a file's log lines: those in the calls of loggers,
// and those in lists that a function makes first and gives to one.
func keysIn(file *ast.File) []*ast.BasicLit {
	var keys []*ast.BasicLit
	for _, declared := range file.Decls {
		lists := map[string]bool{}
		ast.Inspect(declared, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				keys = append(keys, keysOf(call)...)
				if list, ok := listOf(call); ok {
					lists[list] = true
				}
			}
			return true
		})
		ast.Inspect(declared, func(n ast.Node) bool {
			if assignment, ok := n.(*ast.AssignStmt); ok && len(assignment.Lhs) == 1 && len(assignment.Rhs) == 1 {
				if name, ok := assignment.Lhs[0].(*ast.Ident); ok && lists[name.Name] {
					keys = append(keys, keysOfList(assignment.Rhs[0])...)
				}
			}
			return true
		})
	}
	return keys
}

// listOf gives the name of the list whose elements a logger is called with.
func listOf(call *ast.CallExpr) (string, bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !call.Ellipsis.IsValid() || !isLogger(method.X) {
		return "", false
	}
	list, ok := call.Args[len(call.Args)-1].(*ast.Ident)
	if !ok {
		return "", false
	}
	return list.Name, true
}

// keysOfList gives the literal keys of []any{…}, and of append(list, …).
func keysOfList(x ast.Expr) []*ast.BasicLit {
	switch x := x.(type) {
	case *ast.CompositeLit:
		return literals(x.Elts)
	case *ast.CallExpr:
		if name, ok := x.Fun.(*ast.Ident); ok && name.Name == "append" && !x.Ellipsis.IsValid() {
			return literals(x.Args[1:])
		}
	}
	return nil
}

// keysOf gives the literal keys of a call of a logger: something called log or
// Logger.
func keysOf(call *ast.CallExpr) []*ast.BasicLit {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	first, leveled := logLevels[method.Sel.Name]
	if !leveled || !isLogger(method.X) {
		return nil
	}
	if first > len(call.Args) {
		return nil
	}
	return literals(call.Args[first:])
}

// literals gives the keys of a row of keys and values.
func literals(row []ast.Expr) []*ast.BasicLit {
	var keys []*ast.BasicLit
	for i := 0; i < len(row); i += 2 {
		if key, ok := row[i].(*ast.BasicLit); ok && key.Kind == token.STRING {
			keys = append(keys, key)
		}
	}
	return keys
}

func isLogger(x ast.Expr) bool {
	name := ""
	switch x := x.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	return strings.EqualFold(name, "log") || strings.EqualFold(name, "logger")
}

// tableOf reads what stands in backquotes in the first column of a page's tables.
func tableOf(page string) []string {
	var all []string
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for i, part := range strings.Split(cell, "`") {
			if i%2 == 1 {
				all = append(all, part)
			}
		}
	}
	return all
}
