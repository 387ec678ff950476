package pooltree

import (
	"slices"
	"testing"

	"weir/scheduling"
	"weir/scheduling/access"
)

func TestRights(t *testing.T) {
	read := func(tree, team map[string]any) Tree {
		t.Helper()
		options, err := ReadTreeOptions(tree)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := ReadPoolOptions(team)
		if err != nil {
			t.Fatal(err)
		}
		made, err := FromPools(options, []Pool{{Name: "team", Parent: scheduling.RootPool, Options: pool}, {Name: "ads", Parent: "team"}})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	acl := func(right string, subjects ...any) map[string]any {
		return map[string]any{"acl": map[string]any{right: subjects}}
	}
	for _, test := range []struct {
		story      string
		tree, team map[string]any
		right      access.Right
		pool       scheduling.PoolName
		want       []access.Subject
	}{
		{"everyone may use a new tree", nil, nil, access.Use, "ads", []access.Subject{"*"}},
		{"and nothing else", nil, nil, access.Read, "ads", nil},
		{"another right on the root takes nothing away", acl("read", "user:ann"), nil, access.Use, "team", []access.Subject{"*"}},
		{"an empty list does", acl("use"), nil, access.Use, "team", nil},
		{"rights are handed down and add up", acl("use", "user:ann"), acl("use", "group:g", "user:ann"), access.Use, "ads", []access.Subject{"group:g", "user:ann"}},
		{"never up", acl("use"), acl("use", "group:g"), access.Use, "<Root>", nil},
		{"where there is no such pool the root counts", acl("use", "user:ann"), acl("use", "group:g"), access.Use, "none", []access.Subject{"user:ann"}},
	} {
		tree := read(test.tree, test.team)
		if got := tree.Holders(test.right, test.pool); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.story, got, test.want)
		}
		if got := tree.Gives(test.right, access.Who{User: "ann"}, test.pool); got != (slices.Contains(test.want, "*") || slices.Contains(test.want, "user:ann")) {
			t.Errorf("%s: ann has the right: %t", test.story, got)
		}
	}
}
