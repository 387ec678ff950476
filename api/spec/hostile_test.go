package spec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/api/document"
	"weir/scheduling/option"
)

// hostile returns texts of about n bytes that a parser may take long for or nest
// too deep in.
func hostile(n int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, n/len(s)) }
	var fields strings.Builder
	for i := 0; fields.Len() < n; i++ {
		fmt.Fprintf(&fields, "k%d: 1\n", i)
	}
	return map[string]string{
		"lists in a line": fill("- "), "lists in brackets": "[" + fill("- "), "keys in a line": fill("a: "), "question marks": fill("? "),
		"brackets": fill("["), "objects": fill("{a: "), "objects in quotes": fill(`{"a": `),
		"brackets closed in comments": fill(strings.Repeat("[", 500) + " #" + strings.Repeat("]", 500) + "\n"),
		"fields without values":       fill("a:\n"), "fields": fields.String(), "anchors": "a: " + fill("&a "), "aliases": "a: " + fill("*a "),
		"tags": "a: " + fill("!a "), "directives": fill("%"), "documents": fill("---\n"), "words": "a: [" + fill("x,") + "]",
		"numbers": `{"a": [` + fill("1,") + "1]}", "quotes": fill("'"), "escapes": `a: "` + fill(`\n`) + `"`, "comments": fill("# x\n"), "lines": fill("\n"),
		"a long name": fill("k") + ": 1", "carriage returns": fill("\r"), "a literal": "a: |\n" + fill("  x\n"), "blanks": fill(" ") + "a: 1",
	}
}

// Without the limits on tokens, some of these need minutes and gigabytes.
func TestHostileTextIsReadOrRefused(t *testing.T) {
	for name, text := range hostile(document.MaxBytes / 4) {
		t.Run(name, func(t *testing.T) {
			_, err := checked(Read([]byte(text)))
			var refused *option.Error
			if !errors.As(err, &refused) {
				t.Errorf("error %v, want an Error", err)
			}
		})
	}
}

func TestManyFaultsAreCounted(t *testing.T) {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "unknown%d: 1\n", i)
	}
	_, err := checked(Read([]byte(root(b.String()))))
	if err == nil || !strings.Contains(err.Error(), "has 150 errors") || !strings.HasSuffix(err.Error(), "and 130 more") {
		t.Errorf("error %v", err)
	}
}
