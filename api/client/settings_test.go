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

// plainFile is a file of settings with credentials.
const plainFile = "addresses: [a:1, b:2]\ncredentials: certs/me\n"

// settingsCase is a file and an environment, and the settings that they are.
type settingsCase struct {
	file      string
	env       map[string]string
	want      func(dir string) client.Settings
	wantError []string
}

// loadAll loads the settings of each case from a folder below that of the file.
func loadAll(t *testing.T, cases map[string]settingsCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			below := filepath.Join(dir, "deep", "below")
			if err := os.MkdirAll(below, 0o755); err != nil {
				t.Fatal(err)
			}
			if test.file != "" {
				writeFile(t, filepath.Join(dir, client.SettingsFile), test.file)
			}
			got, err := client.Sources{Dir: below, Getenv: func(key string) string { return test.env[key] }}.Load()
			if test.wantError != nil {
				if err == nil {
					t.Fatalf("settings = %+v; want an error", got)
				}
				for _, want := range test.wantError {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q does not say %q", err, want)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.Source = ""
			if diff := cmp.Diff(test.want(dir), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadSettings(t *testing.T) {
	loadAll(t, map[string]settingsCase{
		"nothing": {want: func(string) client.Settings { return client.Settings{} }},
		"a file, whose credentials are beside it": {file: plainFile, want: func(dir string) client.Settings {
			return client.Settings{Addresses: []string{"a:1", "b:2"}, Credentials: filepath.Join(dir, ".weir", "certs", "me")}
		}},
		"plaintext": {file: "addresses: [a:1]\ninsecure_plaintext: true\nuser: ada\n", want: func(string) client.Settings {
			return client.Settings{Addresses: []string{"a:1"}, Insecure: true, User: "ada"}
		}},
		"the environment comes first": {
			file: plainFile, env: map[string]string{client.EnvAddresses: "c:3, d:4,", client.EnvCredentials: "/certs"},
			want: func(string) client.Settings {
				return client.Settings{Addresses: []string{"c:3", "d:4"}, Credentials: "/certs"}
			},
		},
		"plaintext by the environment needs no credentials": {
			file: plainFile, env: map[string]string{client.EnvInsecure: "1"},
			want: func(string) client.Settings {
				return client.Settings{Addresses: []string{"a:1", "b:2"}, Insecure: true}
			},
		},
		"credentials by the environment end plaintext": {
			file: "addresses: [a:1]\ninsecure_plaintext: true\nuser: ada\n", env: map[string]string{client.EnvCredentials: "/certs"},
			want: func(string) client.Settings {
				return client.Settings{Addresses: []string{"a:1"}, Credentials: "/certs"}
			},
		},
	})
}

// TestSettingsThatCannotBe has faults of the file and of the environment.
func TestSettingsThatCannotBe(t *testing.T) {
	loadAll(t, map[string]settingsCase{
		"an unknown key":     {file: "adresses: [a:1]\n", wantError: []string{"adresses", "client.yaml"}},
		"no port":            {file: "addresses: [a]\n", wantError: []string{`"a"`, "host:port", "client.yaml"}},
		"both protections":   {file: "credentials: c\ninsecure_plaintext: true\n", wantError: []string{"leave one out", "client.yaml"}},
		"not yaml":           {file: "addresses: [", wantError: []string{"client.yaml"}},
		"a switch for maybe": {env: map[string]string{client.EnvInsecure: "maybe"}, wantError: []string{client.EnvInsecure, "maybe"}},
		"no port in the environment": {
			env: map[string]string{client.EnvAddresses: "a"}, wantError: []string{`"a"`, "host:port"},
		},
	})
}

func TestValidateSettings(t *testing.T) {
	tests := map[string]struct {
		settings client.Settings
		want     []string
	}{
		"nothing is known": {client.Settings{}, []string{"--addresses", "--credentials", client.EnvAddresses, client.EnvCredentials, "weir dev up"}},
		"no credentials":   {client.Settings{Addresses: []string{"a:1"}}, []string{"a:1", "--credentials", client.EnvCredentials, "--insecure-plaintext"}},
		"a user beside a certificate": {
			client.Settings{Addresses: []string{"a:1"}, Credentials: "c", User: "ada"}, []string{`"ada"`, "certificate in c"},
		},
		"both protections": {client.Settings{Addresses: []string{"a:1"}, Credentials: "c", Insecure: true}, []string{"leave one out"}},
		"no host":          {client.Settings{Addresses: []string{":1"}, Insecure: true}, []string{`":1"`, "host:port"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.settings.Validate()
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
	if err := (client.Settings{}).Validate(); !errors.Is(err, client.ErrNotConfigured) {
		t.Errorf("error = %v; want ErrNotConfigured", err)
	}
}

func TestSavedSettingsMoveWithTheirFolder(t *testing.T) {
	before := filepath.Join(t.TempDir(), "before")
	saved := client.Settings{Addresses: []string{"a:1"}, Credentials: filepath.Join(before, ".weir", "certs")}
	if err := client.SaveSettings(filepath.Join(before, client.SettingsFile), saved); err != nil {
		t.Fatal(err)
	}
	after := filepath.Join(t.TempDir(), "after")
	if err := os.Rename(before, after); err != nil {
		t.Fatal(err)
	}
	path, err := client.FindSettings(after)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.ReadSettings(path)
	if err != nil {
		t.Fatal(err)
	}
	want := client.Settings{Addresses: []string{"a:1"}, Credentials: filepath.Join(after, ".weir", "certs"), Source: path}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOpenRefusesCredentialsThatAreNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	_, err := client.Open(client.Settings{Addresses: []string{"a:1"}, Credentials: dir}, nil)
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("error = %v; want one that names %s", err, dir)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
