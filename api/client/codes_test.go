package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"weir/api/client"
)

// TestEveryCodeIsExplained compares the codes that clients know with the constants of the API and of the
// state machine: none is without meaning and advice, and there is none that nothing returns.
func TestEveryCodeIsExplained(t *testing.T) {
	constants := constantsOf(t, "../../messages/apipb/codes.go", "../../raftstore/state/refusal.go")
	if len(constants) < 80 {
		t.Fatalf("only %d constants: %v", len(constants), constants)
	}
	// What no handler has returned has the code of the protocol.
	for _, kind := range []connect.Code{connect.CodeCanceled, connect.CodeDeadlineExceeded, connect.CodeResourceExhausted, connect.CodeUnimplemented, connect.CodeUnknown} {
		constants = append(constants, kind.String())
	}
	slices.Sort(constants)
	constants = slices.Compact(constants)
	var known []string
	for _, c := range client.Codes() {
		known = append(known, c.Name)
		for what, sentence := range map[string]string{"meaning": c.Meaning, "what to do": c.Do} {
			if !strings.HasSuffix(sentence, ".") || len(sentence) < 10 {
				t.Errorf("%s: %s: %q is no sentence", c.Name, what, sentence)
			}
		}
		if found, ok := client.FindCode(c.Name); !ok || found != c {
			t.Errorf("%s: found %v", c.Name, found)
		}
	}
	if !slices.IsSorted(known) {
		t.Error("the codes are not sorted")
	}
	for _, name := range constants {
		if !slices.Contains(known, name) {
			t.Errorf("code %s is not explained: add it to codes", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(constants, name) {
			t.Errorf("code %s is explained, but nothing returns it", name)
		}
	}
}

// constantsOf returns the values of the constants in Go files whose names begin with Code.
func constantsOf(t *testing.T, paths ...string) (values []string) {
	t.Helper()
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
			return true
		})
	}
	return values
}
