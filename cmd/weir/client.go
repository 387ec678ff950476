package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/api/client"
	"weir/cmd/weir/internal/browse"
	"weir/messages/apipb"
)

// Without --timeout, the limits on how long the cluster may be unreachable before a command
// gives up. That of a call is short, since the user can repeat the call. That of a wait outlasts
// a restart of all replicas.
const (
	callPatience = 15 * time.Second
	waitPatience = 2 * time.Minute
)

// newClientCommands returns the verbs that use a cluster.
func newClientCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, build := range []func(*clientFlags) *cobra.Command{
		newStatusCommand, newTopCommand, newOpCommand, newJobCommand, newMemoryCommand, newPoolCommand, newTreeCommand, newWhatifCommand, newGetCommand, newExplainCommand, newEventsCommand, newAuditCommand, newNodeCommand, newGroupCommand, newAccountCommand, newStoreCommand, newWhoamiCommand, newClusterCommand,
	} {
		f := &clientFlags{format: formatTable}
		cmd := build(f)
		f.register(cmd)
		commands = append(commands, cmd)
	}
	return append(commands, newUICommand(), newContextCommand())
}

// newUICommand returns the verb that serves the page with the caller's certificate.
func newUICommand() *cobra.Command {
	var f clientFlags
	cmd := browse.NewUICommand(browse.UI{Version: version, Usage: usage, Open: func() (*client.Client, error) { return f.open(nil) }})
	f.registerCluster(cmd)
	f.complete(cmd)
	checkArguments(cmd)
	return cmd
}

// clientFlags holds the flags of every verb that uses a cluster.
type clientFlags struct {
	settings client.Settings
	context  string
	timeout  time.Duration
	format   format
	color    coloring
}

func (f *clientFlags) register(cmd *cobra.Command) {
	f.registerCluster(cmd)
	flags := cmd.PersistentFlags()
	flags.DurationVar(&f.timeout, "timeout", 0, fmt.Sprintf("time limit of the whole command (default: until the cluster has been unreachable for %.0fs, or %.0fm while waiting for an operation)", callPatience.Seconds(), waitPatience.Minutes()))
	registerOutput(cmd, flags, &f.format)
	registerColor(cmd, flags, &f.color)
	f.complete(cmd)
	checkArguments(cmd)
}

// registerCluster adds the flags that say which cluster a verb uses, and as whom.
func (f *clientFlags) registerCluster(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.context, "context", "", "name of the cluster to use, see weir context (default: "+client.EnvContext+", else "+client.SettingsFile+" here or in a folder above, else the current context)")
	must(cmd.RegisterFlagCompletionFunc("context", completeContexts))
	registerSettings(flags, &f.settings, "default: %s, else that of the context")
}

// registerSettings adds the flags of single settings. Their defaults, where %s is a variable of
// the environment, are told as in `missing`.
func registerSettings(flags *pflag.FlagSet, s *client.Settings, missing string) {
	told := func(what, variable string) string {
		if missing == "" {
			return what
		}
		return what + " (" + fmt.Sprintf(missing, variable) + ")"
	}
	flags.StringSliceVar(&s.Addresses, "addresses", nil, told("host:port of replicas", client.EnvAddresses))
	flags.StringVar(&s.Credentials, "credentials", "", told("credentials folder of a user or operator", client.EnvCredentials))
	flags.BoolVar(&s.Insecure, "insecure-plaintext", false, "no encryption, no certificates: for clusters started this way")
	must(cobra.MarkFlagDirname(flags, "credentials"))
}

// session is one run of a verb: the cluster's client, and the printer of the output.
type session struct {
	*client.Client
	*printer
	cmd  *cobra.Command
	args []string
	// begun is what the user has written of the word that is completed.
	begun string
	// names are what operations are called, by id, as far as the cluster has been asked.
	names map[string]*apipb.OperationName
}

// verb returns the cobra function of a verb: it opens a session for `run`, and gives errors their
// exit codes.
func (f *clientFlags) verb(run func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if f.timeout < 0 {
			return &exitError{exitUsage, fmt.Errorf("--timeout %v: must not be negative", f.timeout)}
		}
		c, err := f.open(stillTrying(cmd))
		if err != nil {
			return &exitError{exitUsage, err}
		}
		defer c.Close()
		ctx, cancel := f.limit(cmd.Context())
		defer cancel()
		p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), f.format)
		p.color = f.color.holds(p.out, os.Getenv)
		return explain(f.located(run(ctx, &session{Client: c, printer: p, cmd: cmd, args: args}, args)))
	}
}

// shows returns the cobra function of a verb that shows the view from `read`: once, or repeatedly
// with --watch. If `read` returns an error, its view is not shown.
func (f *clientFlags) shows(read func(ctx context.Context, s *session, args []string) (view, error)) func(*cobra.Command, []string) error {
	return f.verb(func(ctx context.Context, s *session, args []string) error {
		return s.repeat(ctx, isSet(s.cmd, "watch"), func(ctx context.Context) (view, error) { return read(ctx, s, args) })
	})
}

// watchable adds the flag --watch to cmd.
func watchable(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("watch", false, "keep running and refresh")
	return cmd
}

// isSet reports whether cmd has a boolean flag of this name that is true.
func isSet(cmd *cobra.Command, name string) bool {
	flag := cmd.Flags().Lookup(name)
	return flag != nil && flag.Value.String() == "true"
}

// stillTrying returns a function that shows why the cluster has not answered yet. It is nil
// with --quiet, unless stderr is a terminal.
func stillTrying(cmd *cobra.Command) func(why string) {
	if isSet(cmd, "quiet") && !isTerminal(cmd.ErrOrStderr()) {
		return nil
	}
	return func(why string) { fmt.Fprintf(cmd.ErrOrStderr(), "cluster unreachable: %s; retrying\n", why) }
}

// choose returns the settings to use: see client.Sources.
func (f *clientFlags) choose() (client.Settings, error) {
	given := f.settings
	given.Source = "the command line"
	return client.Sources{Dir: ".", Context: f.context, Given: given, Getenv: os.Getenv}.Load()
}

// open returns a client for the cluster that the flags, the environment or files name. `trying`, if
// not nil, is called with the reason why there is no answer yet.
func (f *clientFlags) open(trying func(why string)) (*client.Client, error) {
	settings, err := f.choose()
	if err != nil {
		return nil, err
	}
	config, err := settings.Config()
	if err != nil && settings.Source != "" {
		err = fmt.Errorf("settings from %s: %w", settings.Source, err)
	}
	if err != nil {
		return nil, err
	}
	config.Trying, config.Deadline, config.Outage = trying, callPatience, waitPatience
	if f.timeout > 0 {
		// --timeout bounds the whole command, including its waits.
		config.Deadline, config.Outage = f.timeout, 0
	}
	return client.New(config)
}

// located adds to an error of a cluster that does not answer where its addresses are from, unless
// the user has just typed them.
func (f *clientFlags) located(err error) error {
	if len(f.settings.Addresses) > 0 || !errors.Is(err, client.ErrUnreachable) {
		return err
	}
	settings, unknown := f.choose()
	if unknown != nil || settings.Source == "" {
		return err
	}
	return fmt.Errorf("%w (settings from %s)", err, settings.Source)
}

func (f *clientFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.timeout)
}

// explain attaches exit codes to errors. An error from the cluster also shows its code.
func explain(err error) error {
	var coded *exitError
	var refused *client.Error
	switch {
	case err == nil, errors.As(err, &coded):
		return err
	case errors.As(err, &refused):
		return &exitError{exitOf(refused.Kind), fmt.Errorf("%w%s", err, inBrackets(refused))}
	case errors.Is(err, context.Canceled):
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return &exitError{exitNotReached, err}
	default:
		return err
	}
}

// exitOf returns the exit code of a refusal of a kind.
func exitOf(kind connect.Code) int {
	switch kind {
	case connect.CodeNotFound:
		return exitNotFound
	case connect.CodeInternal, connect.CodeUnknown, connect.CodeDataLoss:
		return exitFailure
	default:
		return exitRefused
	}
}

// usage marks err as a mistake in the command line, or in a file that the command line names.
func usage(err error) error {
	var coded *exitError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &exitError{exitUsage, err}
}

// checked makes a verb validate its command line with `check` before it contacts the cluster.
func checked(cmd *cobra.Command, check func(args []string) error) {
	before := cmd.PreRunE
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if before != nil {
			if err := before(cmd, args); err != nil {
				return err
			}
		}
		return usage(check(args))
	}
}

// group turns cmd into a parent of verbs: without a verb it prints its help, and for an unknown
// verb it suggests similar verbs.
func group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			text += ": did you mean " + strings.Join(similar, " or ") + "?"
		}
		return &exitError{exitUsage, fmt.Errorf("%s (see %s --help)", text, cmd.CommandPath())}
	}
	cmd.SuggestionsMinimumDistance = 2
	return cmd
}

// suggestRemove are the words that other programs use for remove.
var suggestRemove = []string{"delete", "del", "rm"}

// operands returns the names of a verb's arguments: the words of its usage line before the
// first flag.
func operands(cmd *cobra.Command) []string {
	names := strings.Fields(cmd.Use)[1:]
	if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }); i >= 0 {
		return names[:i]
	}
	return names
}

// checkArguments makes cmd and the verbs below it check their arguments against their usage
// lines.
func checkArguments(cmd *cobra.Command) {
	if cmd.Args == nil && cmd.Runnable() {
		cmd.Args = takes(operands(cmd)...)
	}
	for _, below := range cmd.Commands() {
		checkArguments(below)
	}
}

// takes returns a check that a verb gets the named arguments and no others. A name in brackets
// is optional. If the last name ends in three dots, its argument may repeat. A name that
// contains = stands for options: they may be left out, and come after the first argument.
func takes(names ...string) cobra.PositionalArgs {
	last := len(names) - 1
	many := last >= 0 && strings.HasSuffix(strings.Trim(names[last], "[]"), "...")
	options := many && strings.Contains(names[last], "=")
	needed := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "[") })
	if options {
		needed = needed[:1]
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(needed):
			return &exitError{exitUsage, fmt.Errorf("%s is missing: %s", needed[len(args)], cmd.UseLine())}
		case options && strings.Contains(args[0], "="):
			return &exitError{exitUsage, fmt.Errorf("%s is missing before %q: %s", names[0], args[0], cmd.UseLine())}
		case len(args) > len(names) && !many:
			return &exitError{exitUsage, fmt.Errorf("unexpected argument %q: %s", args[len(names)], cmd.UseLine())}
		}
		for i, arg := range args {
			if arg == "" {
				return &exitError{exitUsage, fmt.Errorf("%s is empty: %s", strings.Trim(names[min(i, last)], "[]."), cmd.UseLine())}
			}
		}
		return nil
	}
}
