package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/actors/agent/journal"
	"weir/actors/agent/runner/proxyproto"
	"weir/cmd/weir/internal/browse"
	"weir/messages/versions"
	"weir/raftstore/state"
)

func newRootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:           "weir",
		Short:         "Weir shares a cluster's resources fairly among its users",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: "use", Title: "Use a cluster:"},
		&cobra.Group{ID: "run", Title: "Run a cluster:"},
	)
	for _, cmd := range []*cobra.Command{newServerCommand(), newAgentCommand(), newGatewayCommand(), newTLSCommand(), newDevCommand(), newSimulateCommand(), newChaosCommand(), newVersionCommand()} {
		checkArguments(cmd)
		cmd.GroupID = "run"
		root.AddCommand(cmd)
	}
	for _, cmd := range newClientCommands() {
		cmd.GroupID = "use"
		root.AddCommand(cmd)
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		width, _ := screenSize(cmd.OutOrStdout())
		fmt.Fprint(cmd.OutOrStdout(), helpText(cmd, width))
	})
	return root
}

// newVersionCommand returns the verb that says what this program is, and which formats it reads and writes.
func newVersionCommand() *cobra.Command {
	f := formatTable
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program and the formats that it works with",
		Example: "  weir version\n  weir version -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			commit := "unknown"
			if build, ok := debug.ReadBuildInfo(); ok {
				commit = commitOf(build)
			}
			answer, err := structpb.NewStruct(map[string]any{
				"version": version, "commit": commit, "go": runtime.Version(),
				"cluster_versions": map[string]any{"oldest": versions.Oldest, "newest": versions.Current},
				"formats": map[string]any{
					"snapshot":  map[string]any{"oldest": state.Format(versions.Oldest), "newest": state.Format(versions.Current)},
					"replica":   map[string]any{"oldest": versions.Oldest, "newest": versions.Current},
					"journal":   map[string]any{"newest": journal.Format},
					"job_proxy": map[string]any{"oldest": proxyproto.Oldest, "newest": proxyproto.Version},
				},
			})
			if err != nil {
				return err
			}
			return newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), f).show(view{message: answer, text: func(time.Time) string {
				page := newFacts()
				page.add("version", version)
				page.add("commit", commit)
				page.add("cluster versions", fmt.Sprintf("%d to %d", versions.Oldest, versions.Current))
				page.add("snapshots, backups", fmt.Sprintf("formats %d to %d", state.Format(versions.Oldest), state.Format(versions.Current)))
				page.add("agents' journals", fmt.Sprintf("format %d", journal.Format))
				page.add("job proxies", fmt.Sprintf("protocols %d to %d", proxyproto.Oldest, proxyproto.Version))
				return page.String()
			}})
		},
	}
	registerOutput(cmd, cmd.Flags(), &f)
	return cmd
}

// commitOf returns the commit that a program was built from, marked if it was changed.
func commitOf(build *debug.BuildInfo) string {
	commit, changed := "unknown", ""
	for _, setting := range build.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = ", changed"
		}
	}
	return commit + changed
}

// helpText returns what --help prints, in lines of a width if that is not 0: usage lines, examples
// and lists of verbs are left as they are.
func helpText(cmd *cobra.Command, width int) string {
	usages := cmd.UsageString()
	if width > 0 {
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			usages = strings.Replace(usages, strings.TrimSpace(flags.FlagUsages()), strings.TrimSpace(flags.FlagUsagesWrapped(width)), 1)
		}
	}
	return reflow(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), width) + "\n\n" + usages
}

// listed finds lists and tables in a text: what is indented, numbered or in columns.
var listed = regexp.MustCompile(`(?m)^ |^[0-9]|  `)

// reflow returns a text with its paragraphs in lines of a width; 0: as it is. Lists and tables stay.
func reflow(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if width == 0 || listed.MatchString(p) {
			continue
		}
		var lines strings.Builder
		used := 0
		for _, word := range strings.Fields(p) {
			n := utf8.RuneCountInString(word)
			switch {
			case used == 0:
			case used+1+n > width:
				lines.WriteByte('\n')
				used = 0
			default:
				lines.WriteByte(' ')
				used++
			}
			lines.WriteString(word)
			used += n
		}
		paragraphs[i] = lines.String()
	}
	return strings.Join(paragraphs, "\n\n")
}

// newGatewayCommand returns the verb that serves the page to a team.
func newGatewayCommand() *cobra.Command {
	var l logging
	var config string
	cmd := browse.NewGatewayCommand(browse.Gateway{Version: version, Usage: usage, Prepare: func(cmd *cobra.Command) (*slog.Logger, error) {
		if err := fromFile(cmd, config); err != nil {
			return nil, err
		}
		return l.logger()
	}})
	l.register(cmd.Flags())
	cmd.Flags().StringVar(&config, "config", "", "YAML file with flags; the command line takes precedence")
	return cmd
}

// logging holds the logging flags of every long-running verb.
type logging struct {
	level, format string
}

func (l *logging) register(flags *pflag.FlagSet) {
	flags.StringVar(&l.level, "log-level", "info", "minimum log level: debug, info, warn or error")
	flags.StringVar(&l.format, "log-format", "text", "log format: text or json")
}

// logger returns a logger that writes to standard error.
func (l *logging) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--log-level %q: must be debug, info, warn or error", l.level)}
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), nil
	default:
		return nil, &exitError{exitUsage, fmt.Errorf("--log-format %q: must be text or json", l.format)}
	}
}

// fromFile sets the flags that the command line does not set from a YAML file. Its keys are
// the names of flags, with - or _; a list is joined by commas. An unknown key is an error.
func fromFile(cmd *cobra.Command, path string) error {
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("read configuration: %w", err)}
	}
	var settings map[string]any
	if err := yaml.Unmarshal(data, &settings); err != nil {
		return &exitError{exitUsage, fmt.Errorf("read configuration %s: %s", path, yaml.FormatError(err, false, true))}
	}
	for key, value := range settings {
		name := strings.ReplaceAll(key, "_", "-")
		flag := cmd.Flags().Lookup(name)
		if flag == nil || name == "config" || name == "help" {
			return &exitError{exitUsage, fmt.Errorf("read configuration %s: unknown setting %q (see %s --help)", path, key, cmd.CommandPath())}
		}
		if flag.Changed {
			continue
		}
		if err := cmd.Flags().Set(name, flagText(value)); err != nil {
			return &exitError{exitUsage, fmt.Errorf("read configuration %s: setting %q: %w", path, key, err)}
		}
	}
	return nil
}

func flagText(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	parts := make([]string, len(list))
	for i, item := range list {
		parts[i] = fmt.Sprint(item)
	}
	return strings.Join(parts, ",")
}

// require returns an error that names the first of the flags that is empty.
func require(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Value.String() == "" || flag.Value.String() == "[]" {
			return &exitError{exitUsage, fmt.Errorf("--%s is needed: %s", name, flag.Usage)}
		}
	}
	return nil
}

// flagError says what is wrong with a flag, and where valid ones are listed. Of a verb that does not exist
// no flag is known either: then the verb is the mistake.
func flagError(cmd *cobra.Command, err error) error {
	if verb := cmd.Flags().Args(); cmd.HasSubCommands() && len(verb) > 0 {
		return cmd.RunE(cmd, verb)
	}
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &value) && errors.As(err, &number) {
		needed := "a whole number"
		switch {
		case errors.Is(number, strconv.ErrRange):
			needed = "smaller, or not negative"
		case strings.HasPrefix(value.GetFlag().Value.Type(), "float"):
			needed = "a number"
		case value.GetFlag().Value.Type() == "bool":
			needed = "true or false"
		}
		err = fmt.Errorf("--%s %q: must be %s", value.GetFlag().Name, value.GetValue(), needed)
	}
	return &exitError{exitUsage, fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
}
