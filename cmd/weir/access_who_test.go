package main

import (
	"strings"
	"testing"

	"weir/messages/apipb"
)

// TestWhoTextNamesAccounts is what weir whoami says of as whom jobs may run.
func TestWhoTextNamesAccounts(t *testing.T) {
	for name, test := range map[string]struct {
		accounts *apipb.Accounts
		want     string
	}{
		"some":            {&apipb.Accounts{Accounts: []string{"ann", "web"}, Groups: []string{"ads"}, IsolationNone: true}, "as ann, web, in group ads, with isolation: none"},
		"none":            {&apipb.Accounts{}, "none by name (weir account list)"},
		"no grant needed": {nil, ""},
	} {
		text := whoText(&apipb.WhoAmIResponse{User: "ann", Role: "user", Accounts: test.accounts})
		if strings.Contains(text, "accounts") != (test.want != "") || !strings.Contains(text, test.want) {
			t.Errorf("%s: %s, want %q", name, text, test.want)
		}
	}
}
