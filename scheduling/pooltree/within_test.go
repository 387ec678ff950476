package pooltree_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/scheduling/pooltree"
)

// many names tags from some number to another, with an operator between.
func many(from, to int, operator string) string {
	var tags []string
	for i := from; i < to; i++ {
		tags = append(tags, fmt.Sprint("t", i))
	}
	return strings.Join(tags, operator)
}

func TestFilterWithin(t *testing.T) {
	cases := map[string]struct {
		inner, outer string
		want         bool
	}{
		"all within one":               {"", "gpu", false},
		"one within all":               {"gpu", "", true},
		"equal":                        {"a|b", "b|a", true},
		"stricter":                     {"a&b", "a", true},
		"apart":                        {"a", "!a", false},
		"only known by the nodes":      {"a", "b", false},
		"impossible":                   {"a & !a", "b", false},
		"impossible, within all":       {"a & !a", "", false},
		"within what is always so":     {"a", "b | !b", true},
		"many tags, equal":             {many(0, 60, "|"), many(0, 60, " | "), true},
		"many tags, within all":        {many(0, 60, "|"), "", true},
		"many tags, turned around":     {many(0, 30, "|") + "|x", "x|" + many(0, 30, "|"), true},
		"many tags, one less":          {many(0, 59, "|"), many(0, 60, "|"), true},
		"many tags, one more":          {many(0, 60, "|"), many(0, 59, "|"), false},
		"many tags, all of them":       {many(0, 60, "&"), many(0, 30, "|"), true},
		"many tags, others":            {many(0, 30, "|"), many(30, 60, "|"), false},
		"many tags, apart by one":      {"(" + many(0, 30, "|") + ") & !gpu", "(" + many(0, 30, "|") + ") & gpu", false},
		"many tags, and never a node":  {"(" + many(0, 30, "|") + ") & gpu & !gpu", "x", false},
		"none of many, so not the one": {"!(" + many(0, 40, "|") + ")", "!t7", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, known := parse(t, tc.inner).Within(parse(t, tc.outer)); got != tc.want || !known {
				t.Errorf("%q within %q: %v, known %v", tc.inner, tc.outer, got, known)
			}
		})
	}
}

// TestFilterWithinGivesUp has filters that are the same and do not look alike, of
// which nobody can tell without trying very many sets of tags.
func TestFilterWithinGivesUp(t *testing.T) {
	pairs := func(form string) pooltree.Filter {
		var parts []string
		for i := range 30 {
			parts = append(parts, fmt.Sprintf(form, i))
		}
		return parse(t, strings.Join(parts, "&"))
	}
	a, b := pairs("(a%[1]d|b%[1]d)"), pairs("(b%[1]d|a%[1]d)")
	if within, known := a.Within(b); within || known {
		t.Errorf("within %v, known %v", within, known)
	}
	if within, known := a.Within(a); !within || !known {
		t.Errorf("of the same filter: within %v, known %v", within, known)
	}
}

// TestWithinIsThatOfAllTags compares with trying every set of tags.
func TestWithinIsThatOfAllTags(t *testing.T) {
	tags := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		text, inner := drawFilter(t, tags, 4)
		other, outer := drawFilter(t, tags, 4)
		some, all := false, true
		for set := range 1 << len(tags) {
			var has []string
			for i, tag := range tags {
				if set&(1<<i) != 0 {
					has = append(has, tag)
				}
			}
			if inner(has) {
				some, all = true, all && outer(has)
			}
		}
		if got, known := parse(t, text).Within(parse(t, other)); got != (some && all) || !known {
			t.Fatalf("%q within %q: %v, known %v, want %v", text, other, got, known, some && all)
		}
	})
}
