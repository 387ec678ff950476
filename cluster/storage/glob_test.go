package storage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatches(t *testing.T) {
	tests := map[string]struct {
		pattern string
		yes, no []string
	}{
		"a star":                   {"*.txt", []string{"a.txt", ".txt"}, []string{"a.log", "d/a.txt"}},
		"a star between":           {"a/*/c", []string{"a/b/c"}, []string{"a/c", "a/b/b/c"}},
		"two stars":                {"a/**/c", []string{"a/c", "a/b/c", "a/b/b/c"}, []string{"b/c", "a/c/d"}},
		"two stars at the end":     {"a/**", []string{"a/b", "a/b/c"}, []string{"b"}},
		"two stars in a segment":   {"a**c", []string{"abc"}, []string{"a/c"}},
		"a choice, and a sign":     {"[ab]?", []string{"ax", "by"}, []string{"cx", "a"}},
		"two stars more than once": {"**/b/**/d", []string{"b/d", "a/b/c/d"}, []string{"d", "a/d"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, file := range append(slices.Clone(test.yes), test.no...) {
				if got := matches(strings.Split(test.pattern, "/"), strings.Split(file, "/")); got != slices.Contains(test.yes, file) {
					t.Errorf("%s matches %s: %t", test.pattern, file, got)
				}
			}
		})
	}
}

// TestGlobsAreThoseOfTheStandardLibrary where there are no two stars, and folders that
// cannot lead to a match have none.
func TestGlobsAreThoseOfTheStandardLibrary(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "*", "a*", "?", "[ab]", "**"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(segment, 1, 4).Draw(t, "pattern")
		name := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "c"}), 1, 4).Draw(t, "name")
		got := matches(pattern, name)
		if !slices.Contains(pattern, "**") {
			want, err := filepath.Match(strings.Join(pattern, "/"), strings.Join(name, "/"))
			if err != nil || got != want {
				t.Fatalf("%q matches %q: %t, want %t, %v", pattern, name, got, want, err)
			}
		}
		for i := range name {
			if got && i > 0 && !mayLead(pattern, name[:i]) {
				t.Fatalf("%q matches %q, and is not looked for in %q", pattern, name, name[:i])
			}
		}
	})
}

func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"*", "**/x", "[a-", "a/[^b]/**", `a\*`, "", "//", "a/../b"} {
		f.Add(seed)
	}
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Contains(pattern, "..") || strings.Contains(pattern, "\x00") {
			t.Skip("it leads out of the folder of the test")
		}
		l := local{roots: []string{dir}}
		files, err := l.list(t.Context(), dir+"/"+pattern)
		if isGlob(pattern) && err == nil && len(files) == 0 {
			t.Errorf("%q stands for nothing, and that is no error", pattern)
		}
	})
}
