package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/api/client"
)

// twoContexts is a file with two contexts.
const twoContexts = `
current_context: prod
contexts:
  prod:
    addresses: [p1:1, p2:1]
    credentials: certs/ann
  lab:
    addresses: [l:1]
    insecure_plaintext: true
    user: ada
`

// user is a user with a home folder and a working folder in it.
type user struct {
	home, work string
	env        map[string]string
}

func newUser(t *testing.T, contexts string) *user {
	t.Helper()
	home := t.TempDir()
	u := &user{home: home, work: filepath.Join(home, "project"), env: map[string]string{"HOME": home}}
	if err := os.Mkdir(u.work, 0o755); err != nil {
		t.Fatal(err)
	}
	if contexts != "" {
		writeFile(t, u.file(), contexts)
	}
	return u
}

func (u *user) getenv(name string) string { return u.env[name] }

func (u *user) file() string { return filepath.Join(u.home, ".config", "weir", "config.yaml") }

func (u *user) open(t *testing.T) client.Contexts {
	t.Helper()
	c, err := client.OpenContexts(u.getenv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPrecedence: one source counts as a whole, variables replace single settings unless a
// context is named by a flag, and flags replace single settings of all.
func TestPrecedence(t *testing.T) {
	plain := client.Settings{Addresses: []string{"f:1"}, Insecure: true, Source: "flags"}
	tests := map[string]struct {
		contexts, here string
		env            map[string]string
		context        string
		given          client.Settings
		want           string
	}{
		"nothing":                      {want: "[]  from "},
		"the current context":          {contexts: twoContexts, want: `[p1:1 p2:1] ~/.config/weir/certs/ann from context "prod" of ~/.config/weir/config.yaml`},
		"no current context":           {contexts: `contexts: {lab: {addresses: ["l:1"]}}`, want: "[]  from "},
		"the cluster of this folder":   {contexts: twoContexts, here: plainFile, want: "[a:1 b:2] ~/project/.weir/certs/me from ~/project/.weir/client.yaml"},
		"a variable names a context":   {contexts: twoContexts, here: plainFile, env: map[string]string{client.EnvContext: "lab"}, want: `[l:1] plaintext ada from context "lab" of ~/.config/weir/config.yaml`},
		"a flag names a context":       {contexts: twoContexts, here: plainFile, env: map[string]string{client.EnvContext: "lab"}, context: "prod", want: `[p1:1 p2:1] ~/.config/weir/certs/ann from context "prod" of ~/.config/weir/config.yaml`},
		"a variable for one setting":   {contexts: twoContexts, env: map[string]string{client.EnvCredentials: "/c"}, want: `[p1:1 p2:1] /c from context "prod" of ~/.config/weir/config.yaml and the environment`},
		"not against a named context":  {contexts: twoContexts, env: map[string]string{client.EnvCredentials: "/c", client.EnvAddresses: "e:1", client.EnvInsecure: "true"}, context: "lab", want: `[l:1] plaintext ada from context "lab" of ~/.config/weir/config.yaml`},
		"a flag for one setting":       {contexts: twoContexts, context: "prod", given: client.Settings{Credentials: "/c", Source: "flags"}, want: `[p1:1 p2:1] /c from context "prod" of ~/.config/weir/config.yaml and flags`},
		"variables for all":            {contexts: "not: read", here: "not: read", env: map[string]string{client.EnvAddresses: "e:1", client.EnvCredentials: "/c"}, want: "[e:1] /c from the environment"},
		"flags for all":                {contexts: "not: read", here: "not: read", env: map[string]string{client.EnvAddresses: "e:1", client.EnvCredentials: "/c"}, given: plain, want: "[f:1] plaintext  from flags"},
		"flags and variables for all":  {contexts: "not: read", env: map[string]string{client.EnvCredentials: "/c"}, given: client.Settings{Addresses: []string{"f:1"}, Source: "flags"}, want: "[f:1] /c from the environment and flags"},
		"a folder for configuration":   {contexts: twoContexts, env: map[string]string{"XDG_CONFIG_HOME": "/none"}, want: "[]  from "},
		"one that has to be ignored":   {contexts: twoContexts, env: map[string]string{"XDG_CONFIG_HOME": "none"}, context: "lab", want: `[l:1] plaintext ada from context "lab" of ~/.config/weir/config.yaml`},
		"no home, and nothing to find": {env: map[string]string{"HOME": ""}, want: "[]  from "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u := newUser(t, test.contexts)
			for key, value := range test.env {
				u.env[key] = value
			}
			if test.here != "" {
				writeFile(t, filepath.Join(u.work, client.SettingsFile), test.here)
			}
			s, err := client.Sources{Dir: u.work, Context: test.context, Given: test.given, Getenv: u.getenv}.Load()
			if err != nil {
				t.Fatal(err)
			}
			as := s.Credentials
			if s.Insecure {
				as = "plaintext " + s.User
			}
			got := "[" + strings.Join(s.Addresses, " ") + "] " + as + " from " + s.Source
			if got = strings.ReplaceAll(got, u.home, "~"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestContextsThatCannotBe: errors name the file, the context, and what to do.
func TestContextsThatCannotBe(t *testing.T) {
	tests := map[string]struct {
		contexts string
		env      map[string]string
		context  string
		want     []string
	}{
		"a context that is not there":  {contexts: twoContexts, context: "prdo", want: []string{`--context: unknown context "prdo"`, "config.yaml has lab, prod", "weir context set prdo --addresses"}},
		"one named by a variable":      {env: map[string]string{client.EnvContext: "prod"}, want: []string{`WEIR_CONTEXT: unknown context "prod"`, "config.yaml has none"}},
		"one named by the file":        {contexts: "current_context: gone", want: []string{`current_context: unknown context "gone"`, "config.yaml"}},
		"an unknown key":               {contexts: "contexts: {lab: {adresses: [a:1]}}", want: []string{"config.yaml", `"adresses"`}},
		"not yaml":                     {contexts: "contexts: [", want: []string{"config.yaml"}},
		"no port":                      {contexts: "contexts: {lab: {addresses: [a]}}", want: []string{"config.yaml", `context "lab"`, "host:port"}},
		"both protections":             {contexts: `contexts: {lab: {addresses: ["a:1"], credentials: c, insecure_plaintext: true}}`, want: []string{`context "lab"`, "leave one out"}},
		"a name that no shell likes":   {contexts: `contexts: {'a b': {addresses: ["a:1"]}}`, want: []string{`context "a b"`, "a name has"}},
		"no home for a named context":  {env: map[string]string{"HOME": ""}, context: "prod", want: []string{"HOME or XDG_CONFIG_HOME"}},
		"a file that cannot be a file": {env: map[string]string{"XDG_CONFIG_HOME": "/dev/null"}, want: []string{"read contexts", "/dev/null/weir/config.yaml"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u := newUser(t, test.contexts)
			for key, value := range test.env {
				u.env[key] = value
			}
			_, err := client.Sources{Dir: u.work, Context: test.context, Getenv: u.getenv}.Load()
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestContextsAreKept(t *testing.T) {
	u := newUser(t, "")
	beside := filepath.Join(filepath.Dir(u.file()), "certs", "ann")
	for name, s := range map[string]client.Settings{
		"prod": {Addresses: []string{"p:1"}, Credentials: beside},
		"lab":  {Addresses: []string{"l:1"}, Credentials: "/else/where"},
	} {
		c := u.open(t)
		if err := c.Set(name, s); err != nil {
			t.Fatal(err)
		}
		if len(c.Named) == 1 && c.Current != name {
			t.Errorf("the first context, %s, is not the current one: %q", name, c.Current)
		}
		c.Current = "prod"
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(u.file())
	want := "current_context: prod\ncontexts:\n  lab:\n    addresses:\n    - l:1\n    credentials: /else/where\n  prod:\n    addresses:\n    - p:1\n    credentials: certs/ann\n"
	if diff := cmp.Diff(want, string(text)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	c := u.open(t)
	if got := c.Named["prod"].Credentials; got != beside {
		t.Errorf("credentials %q, want %q", got, beside)
	}
	if err := c.Remove("prod"); err != nil || c.Current != "" || len(c.Names()) != 1 {
		t.Errorf("after remove: %v, current %q of %v", err, c.Current, c.Names())
	}
	if err := c.Remove("prod"); !errors.Is(err, client.ErrUnknownContext) {
		t.Errorf("remove what is not there: %v", err)
	}
	for name, s := range map[string]client.Settings{
		"no addresses":   {Credentials: "/c"},
		"no credentials": {Addresses: []string{"a:1"}},
	} {
		if err := c.Set("x", s); err == nil || !strings.Contains(err.Error(), "give --") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Set("-x", client.Settings{Addresses: []string{"a:1"}, Insecure: true}); err == nil {
		t.Error("a name that looks like a flag is accepted")
	}
}
