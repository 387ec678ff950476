package pooltree_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/pooltree"
)

func TestFilter(t *testing.T) {
	cases := map[string]struct {
		filter string
		tags   string
		want   bool
	}{
		"empty takes all":                 {"", "", true},
		"spaces take all":                 {" \t", "a", true},
		"tag that is there":               {"gpu", "cpu gpu", true},
		"tag that is not there":           {"gpu", "cpu", false},
		"part of a tag is not the tag":    {"gpu", "gpu2", false},
		"not":                             {"!gpu", "cpu", true},
		"not not":                         {"!!gpu", "gpu", true},
		"and":                             {"a & b", "a", false},
		"or":                              {"a | b", "b", true},
		"and binds tighter than or":       {"a | b & c", "a", true},
		"and binds tighter, turned":       {"a & b | c", "c", true},
		"not binds tightest":              {"!a & b", "b", true},
		"parentheses":                     {"(a | b) & c", "a", false},
		"not of parentheses":              {"!(a | b)", "c", true},
		"doubled operators":               {"a && !b || c", "a", true},
		"tags with everything they allow": {"zone:eu-1.a/b_c@2+x=y", "zone:eu-1.a/b_c@2+x=y", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := pooltree.ParseFilter(tc.filter)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Match(strings.Fields(tc.tags)); got != tc.want {
				t.Errorf("%q of a node with %q: %v", tc.filter, tc.tags, got)
			}
		})
	}
}

func TestFilterFaults(t *testing.T) {
	cases := map[string]struct {
		filter       string
		wantPosition int
		wantProblem  string
	}{
		"operator at the end":   {"a & ", 5, "expected a tag at the end"},
		"operator at the start": {"| a", 1, "expected a tag, not '|'"},
		"two tags":              {"a b", 3, "expected & or | before 'b'"},
		"open parenthesis":      {"x & (a | b", 11, "opened at position 5 is not closed"},
		"closing parenthesis":   {"a)", 2, "expected & or | before ')'"},
		"no tag":                {"a & $b", 5, "expected a tag, not '$'"},
		"empty parentheses":     {"()", 2, "expected a tag, not ')'"},
		"too deep":              {strings.Repeat("!", 100) + "a", 66, "the limit is 64 levels"},
		"too many terms":        {strings.Repeat("a|", 128) + "a", 1, "257 tags and operators, the limit is 256"},
		"too long":              {strings.Repeat("a", 5000), 4097, "the limit is 4096 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := pooltree.ParseFilter(tc.filter)
			var fault *pooltree.FilterError
			if !errors.As(err, &fault) {
				t.Fatalf("error %v", err)
			}
			if fault.Position != tc.wantPosition || !strings.Contains(fault.Error(), tc.wantProblem) {
				t.Errorf("error %v, want %q at %d", err, tc.wantProblem, tc.wantPosition)
			}
		})
	}
}

// TestFilterIsItsExpression builds random expressions beside the function that
// they stand for.
func TestFilterIsItsExpression(t *testing.T) {
	tags := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		text, eval := drawFilter(t, tags, 4)
		f := parse(t, text)
		for set := range 8 {
			var has []string
			for i, tag := range tags {
				if set&(1<<i) != 0 {
					has = append(has, tag)
				}
			}
			if got, want := f.Match(has), eval(has); got != want {
				t.Fatalf("%q of a node with %v: %v, want %v", text, has, got, want)
			}
		}
	})
}

func drawFilter(t *rapid.T, tags []string, depth int) (string, func(has []string) bool) {
	kind := "tag"
	if depth > 0 {
		kind = rapid.SampledFrom([]string{"tag", "!", "&", "|"}).Draw(t, "kind")
	}
	switch kind {
	case "!":
		text, eval := drawFilter(t, tags, depth-1)
		return "!(" + text + ")", func(has []string) bool { return !eval(has) }
	case "&":
		a, evalA := drawFilter(t, tags, depth-1)
		b, evalB := drawFilter(t, tags, depth-1)
		return "(" + a + ") & (" + b + ")", func(has []string) bool { return evalA(has) && evalB(has) }
	case "|":
		a, evalA := drawFilter(t, tags, depth-1)
		b, evalB := drawFilter(t, tags, depth-1)
		return a + " | " + b, func(has []string) bool { return evalA(has) || evalB(has) }
	}
	tag := rapid.SampledFrom(tags).Draw(t, "tag")
	return tag, func(has []string) bool { return slices.Contains(has, tag) }
}

// FuzzParseFilter holds every filter that is taken to: it is written as it was
// read, names at least one tag unless empty, and matches without a fault.
func FuzzParseFilter(f *testing.F) {
	for _, text := range []string{"", "a", "!a", "a & (b | !c)", "a && b", "((", "a |", "\x00", "a\n|b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := pooltree.ParseFilter(text)
		if err != nil {
			var fault *pooltree.FilterError
			if !errors.As(err, &fault) || fault.Position < 1 || fault.Position > len(text)+1 {
				t.Fatalf("%q is refused with %v", text, err)
			}
			return
		}
		again, err := pooltree.ParseFilter(filter.String())
		if err != nil || again.String() != filter.String() {
			t.Fatalf("%q is written as %q, which reads as %q, %v", text, filter, again, err)
		}
		if filter.Empty() != (len(filter.Tags()) == 0) {
			t.Fatalf("%q names %v", text, filter.Tags())
		}
		if filter.Match(filter.Tags()) != again.Match(filter.Tags()) {
			t.Fatalf("%q does not mean what it is written as", text)
		}
	})
}

func parse(t interface{ Fatal(...any) }, text string) pooltree.Filter {
	f, err := pooltree.ParseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
