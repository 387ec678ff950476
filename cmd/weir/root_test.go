package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"weir/cluster/identity"
	"weir/cluster/wire"
)

// TestConfigurationFile reads files into a verb with an integer, a list and a
// switch.
func TestConfigurationFile(t *testing.T) {
	tests := map[string]struct {
		file    string
		args    []string
		want    string
		wantErr string
	}{
		"values of each kind":             {file: "port: 7\npeers: [a=1, b=2]\nloud: true\n", want: "7 a=1+b=2 true"},
		"_ is -":                          {file: "data_dir: x\nport: 7\n", want: "7  false"},
		"the command line wins":           {file: "port: 7\n", args: []string{"--port", "9"}, want: "9  false"},
		"an unknown setting is named":     {file: "prot: 7\n", wantErr: `unknown setting "prot"`},
		"a file does not name a file":     {file: "config: other.yaml\n", wantErr: `unknown setting "config"`},
		"a value of another kind":         {file: "port: many\n", wantErr: `setting "port"`},
		"text that is no YAML":            {file: "port: [\n", wantErr: "configuration"},
		"a list where a value is needed?": {file: "port: [1, 2]\n", wantErr: `setting "port"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "weir.yaml")
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readFlags(path, test.args)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) || exitCode(err) != exitUsage {
					t.Errorf("got %v with exit code %d, want …%s… with %d", err, exitCode(err), test.wantErr, exitUsage)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if _, err := readFlags(filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that does not exist: got %v, want an error that names it", err)
	}
}

// readFlags runs a verb with the file and arguments, and returns what it was told.
func readFlags(path string, args []string) (got string, err error) {
	var config, dir string
	var port int
	var peers []string
	var loud bool
	cmd := &cobra.Command{Use: "verb", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		if err := fromFile(cmd, config); err != nil {
			return err
		}
		words := []string{cmd.Flags().Lookup("port").Value.String(), strings.Join(peers, "+"), cmd.Flags().Lookup("loud").Value.String()}
		got = strings.Join(words, " ")
		return nil
	}}
	cmd.Flags().StringVar(&config, "config", "", "")
	cmd.Flags().StringVar(&dir, "data-dir", "", "")
	cmd.Flags().IntVar(&port, "port", 0, "")
	cmd.Flags().StringSliceVar(&peers, "peers", nil, "")
	cmd.Flags().BoolVar(&loud, "loud", false, "")
	cmd.SetArgs(append([]string{"--config", path}, args...))
	err = cmd.Execute()
	return got, err
}

func exitCode(err error) int {
	var coded *exitError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitFailure
}

func TestProtection(t *testing.T) {
	dir := t.TempDir()
	authority, err := identity.CreateAuthority(filepath.Join(dir, "authority"), "c1")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "agent-n1")
	if err := authority.Issue(folder, identity.Identity{Role: identity.Agent, Name: "n1"}, nil, 0); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		flags   security
		role    identity.Role
		wantErr string
	}{
		"credentials of this process":       {flags: security{credentials: folder}, role: identity.Agent},
		"credentials of another role":       {flags: security{credentials: folder}, role: identity.Replica, wantErr: `are for agent "n1", not for replica "n1"`},
		"no credentials":                    {role: identity.Agent, wantErr: "--credentials is needed"},
		"a folder that is not there":        {flags: security{credentials: filepath.Join(dir, "none")}, role: identity.Agent, wantErr: "none"},
		"plaintext must be asked for":       {flags: security{insecure: true}, role: identity.Agent},
		"plaintext and credentials at once": {flags: security{insecure: true, credentials: folder}, role: identity.Agent, wantErr: "takes no --credentials"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			got, err := test.flags.load(test.role, "n1", slog.New(slog.NewTextHandler(&said, nil)))
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got %v, want …%s…", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := "c1"
			if test.flags.insecure {
				want = wire.InsecureCluster
			}
			if got.cluster != want || got.security == nil {
				t.Errorf("got %+v, want cluster %s", got, want)
			}
			if loud := strings.Contains(said.String(), "INSECURE"); loud != test.flags.insecure {
				t.Errorf("said %q: a warning about plaintext: %t, want %t", said.String(), loud, test.flags.insecure)
			}
		})
	}
}

func TestVerbsThatLackSomething(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"a server without name":           {[]string{"server"}, "--id is needed"},
		"a server without peers":          {[]string{"server", "--id", "r1"}, "--peers is needed"},
		"a server that is not a peer":     {[]string{"server", "--id", "r9", "--peers", "r1=h:1", "--data", "d"}, "--advertise is needed"},
		"a server with peers of no form":  {[]string{"server", "--id", "r1", "--peers", "r1", "--data", "d"}, "--peers"},
		"a server with unknown log level": {[]string{"server", "--id", "r1", "--peers", "r1=h:1", "--data", "d", "--log-level", "loud"}, "--log-level"},
		"an agent without replicas":       {[]string{"agent", "--name", "n1"}, "--replicas is needed"},
		"a flag that does not exist":      {[]string{"agent", "--nickname", "n1"}, "--nickname"},
		"a role that does not exist":      {[]string{"tls", "issue", "--role", "king", "--name", "x"}, "--role"},
		"another word for remove":         {[]string{"pool", "delete", "ads"}, `unknown command "delete" for "weir pool": did you mean remove?`},
		"a verb that does not exist":      {[]string{"serve"}, `unknown command "serve" for "weir": did you mean server?`},
		"a verb of tls that is not there": {[]string{"tls", "make"}, `unknown command "make" for "weir tls"`},
		"an argument too many":            {[]string{"server", "r1"}, `unexpected argument "r1"`},
		"a member that is not named":      {[]string{"dev", "kill"}, "MEMBER"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := newRootCommand()
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			root.SetArgs(test.args)
			err := root.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || exitCode(err) != exitUsage {
				t.Errorf("got %v with exit code %d, want …%s… with %d", err, exitCode(err), test.want, exitUsage)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	run := func(args ...string) (string, error) {
		var out strings.Builder
		root := newRootCommand()
		root.SetOut(&out)
		root.SetArgs(append([]string{"tls"}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := run("init", "--dir", dir, "--cluster-id", "c1", "--replica", "r1,r2", "--operator", "ops"); err != nil || !strings.Contains(out, "authority of cluster c1") {
		t.Fatalf("init said %q: %v", out, err)
	}
	if _, err := run("init", "--dir", dir); !errors.Is(err, identity.ErrExists) {
		t.Errorf("a second init: got %v, want ErrExists", err)
	}
	if _, err := run("issue", "--dir", dir, "--role", "agent", "--name", "n1"); err != nil {
		t.Error(err)
	}
	for _, folder := range []string{"replica-r1", "replica-r2", "operator-ops", "agent-n1"} {
		role, name, _ := strings.Cut(folder, "-")
		out, err := run("show", filepath.Join(dir, folder))
		if err != nil || !strings.HasPrefix(out, "weir://c1/"+role+"/"+name+", valid until ") {
			t.Errorf("show %s said %q: %v", folder, out, err)
		}
	}
}

// TestHelpFitsTheTerminal looks at the help of every verb: paragraphs and flags have lines of the
// width of the terminal, and no word is lost.
func TestHelpFitsTheTerminal(t *testing.T) {
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		whole := helpText(cmd, 0)
		for _, width := range []int{60, 80, 200} {
			got := helpText(cmd, width)
			if words, want := strings.Fields(got), strings.Fields(whole); !slices.Equal(words, want) {
				t.Errorf("%s --help in %d columns has %d words, want the %d of the whole text", cmd.CommandPath(), width, len(words), len(want))
			}
			above, _, _ := strings.Cut(got, "\nUsage:")
			_, flags, _ := strings.Cut(got, "Flags:\n")
			for line := range strings.Lines(above + flags) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && !listed.MatchString(above) && !strings.HasPrefix(line, "Use ") {
					t.Errorf("%s --help in %d columns has a line of %d: %s", cmd.CommandPath(), width, n, line)
				}
			}
		}
		for _, below := range cmd.Commands() {
			look(below)
		}
	}
	look(newRootCommand())
}
