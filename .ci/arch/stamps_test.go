package arch

import (
	"fmt"
	"go/ast"
)

// keptTime is the only command whose time is data, which the leader leaves as it is.
const keptTime = "CheckpointVolumes"

// checkStamps refuses a time that a proposer sets in a command: only the leader stamps commands
// (raftstore/command, Stamp), so the time would mean nothing.
func checkStamps(repo *repository) []breach {
	var out []breach
	for _, f := range repo.files {
		if f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			command, ok := literal.Type.(*ast.SelectorExpr)
			if !ok || !isNamed(command.X, "commandpb") || command.Sel.Name == keptTime {
				return true
			}
			for _, element := range literal.Elts {
				if field, ok := element.(*ast.KeyValueExpr); ok && isNamed(field.Key, "Time") {
					out = append(out, breach{f.path, f.line(field.Pos()), fmt.Sprintf("a proposer sets the time of %s", command.Sel.Name),
						"leave it out: the leader stamps each command that it is given"})
				}
			}
			return true
		})
	}
	return out
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}
