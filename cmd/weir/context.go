package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/api/client"
	"weir/cluster/identity"
)

func newContextCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "context",
		Short: "Give clusters names, and choose the one to use",
		Long: `Give clusters names, and choose the one to use.

A context is a name for the addresses of a cluster's replicas and the credentials to use there.
Contexts are kept in $XDG_CONFIG_HOME/weir/config.yaml (~/.config/weir/config.yaml). A command uses
the first of:

1. the context of --context
2. the context of the variable WEIR_CONTEXT
3. .weir/client.yaml in this folder or above, which weir dev up writes
4. the current context: weir context use

The variables WEIR_ADDRESSES, WEIR_CREDENTIALS, WEIR_CLUSTER and WEIR_INSECURE_PLAINTEXT replace
single settings of 2 to 4; flags such as --addresses replace single settings of all.`,
		Example: "  weir context set prod --addresses host1:7701,host2:7701 --credentials certs/user-ann\n  weir context use prod\n  weir op list --context prod",
	}, newContextListCommand(), newContextShowCommand(), newContextSetCommand(), newContextUseCommand(), newContextRemoveCommand())
	checkArguments(cmd)
	return cmd
}

// completeContexts suggests the names of contexts.
func completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	contexts, _ := client.OpenContexts(os.Getenv)
	return contexts.Names(), cobra.ShellCompDirectiveNoFileComp
}

// completeContext suggests the name of one context.
func completeContext(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeContexts(cmd, args, begun)
}

// reach is how a cluster is reached, for people and programs.
type reach struct {
	Name        string   `json:"name,omitempty"`
	Current     bool     `json:"current"`
	Addresses   []string `json:"addresses"`
	Credentials string   `json:"credentials,omitempty"`
	Insecure    bool     `json:"insecure_plaintext"`
	User        string   `json:"user,omitempty"`
	Cluster     string   `json:"cluster,omitempty"`
	// Role and Expires are of the certificate.
	Role    string    `json:"role,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// Problem says why no command can use this.
	Problem string `json:"problem,omitempty"`
	// Source is where the settings are from.
	Source string `json:"source"`
}

// reachOf looks at settings and at their certificate.
func reachOf(s client.Settings) reach {
	r := reach{Addresses: s.Addresses, Credentials: s.Credentials, Insecure: s.Insecure, User: s.User, Cluster: s.Cluster, Source: s.Source}
	if _, err := s.Config(); err != nil {
		r.Problem = err.Error()
		return r
	}
	if s.Insecure {
		return r
	}
	credentials, err := identity.LoadCredentials(s.Credentials)
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	self := credentials.Identity()
	r.Cluster, r.Role, r.User, r.Expires = self.Cluster, self.Role.String(), self.Name, credentials.Expires()
	return r
}

// as says as whom a cluster is used.
func (r reach) as() string {
	switch {
	case r.Problem != "":
		return "problem: " + r.Problem
	case r.Insecure:
		return strings.TrimSuffix("plaintext "+r.User, " ")
	default:
		return r.Role + " " + r.User
	}
}

// openContexts returns the user's contexts; an error is a mistake in the file.
func openContexts() (client.Contexts, error) {
	contexts, err := client.OpenContexts(os.Getenv)
	return contexts, usage(err)
}

// changeContexts applies a change to the user's contexts and saves them.
func changeContexts(change func(*client.Contexts) error) (client.Contexts, error) {
	contexts, err := openContexts()
	if err != nil {
		return contexts, err
	}
	if err := change(&contexts); err != nil {
		return contexts, usage(err)
	}
	return contexts, contexts.Save()
}

func newContextListCommand() *cobra.Command {
	f := formatTable
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the contexts",
		Example: "  weir context list",
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		contexts, err := openContexts()
		if err != nil {
			return err
		}
		all := make([]reach, 0, len(contexts.Named))
		table := newGrid("CURRENT", "NAME", "AS", "CLUSTER", "ADDRESSES")
		for _, name := range contexts.Names() {
			r := reachOf(contexts.Named[name])
			r.Name, r.Current = name, name == contexts.Current
			all = append(all, r)
			table.row(when(r.Current, "*"), name, r.as(), r.Cluster, strings.Join(r.Addresses, ","))
		}
		message, err := messageOf(map[string]any{"file": contexts.Path, "current_context": contexts.Current, "contexts": all})
		if err != nil {
			return err
		}
		p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		empty := ""
		if len(all) == 0 {
			empty = fmt.Sprintf("no contexts in %s: weir context set NAME --addresses HOST:PORT,... --credentials FOLDER adds one", contexts.Path)
		}
		if err := p.show(view{message: message, rows: true, empty: empty, text: func(time.Time) string { return table.String() }}); err != nil {
			return err
		}
		noteOther(p, contexts.Current)
		return nil
	}
	registerOutput(cmd, cmd.Flags(), &f)
	return cmd
}

// noteOther says that commands in this folder do not use the current context, if so.
func noteOther(p *printer, current string) {
	here, err := (&clientFlags{}).choose()
	contexts, unknown := client.OpenContexts(os.Getenv)
	if !p.format.forPeople() || err != nil || unknown != nil || current == "" || here.Source == contexts.Named[current].Source {
		return
	}
	p.note("commands here use the settings from %s, unless they have --context", here.Source)
}

func newContextShowCommand() *cobra.Command {
	f := formatTable
	cmd := &cobra.Command{
		Use:   "show [CONTEXT]",
		Short: "Show which cluster commands use here, and as whom",
		Long: `Show which cluster commands use in this folder and environment, where that is said, and as whom;
or those of a context.`,
		Example:           "  weir context show\n  weir context show prod -o json",
		ValidArgsFunction: completeContext,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flags := &clientFlags{}
		if len(args) > 0 {
			flags.context = args[0]
		}
		settings, err := flags.choose()
		if err == nil && len(settings.Addresses) == 0 {
			err = client.ErrNotConfigured
		}
		if err != nil {
			return usage(err)
		}
		r := reachOf(settings)
		message, err := messageOf(r)
		if err != nil {
			return err
		}
		page := newFacts()
		page.add("settings", r.Source)
		page.add("addresses", strings.Join(r.Addresses, ", "))
		page.add("as", r.as())
		page.add("cluster", r.Cluster)
		page.add("credentials", r.Credentials)
		if !r.Expires.IsZero() {
			page.add("expires", r.Expires.Local().Format(time.DateTime))
		}
		return newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), f).show(view{message: message, text: func(time.Time) string { return page.String() }})
	}
	registerOutput(cmd, cmd.Flags(), &f)
	return cmd
}

func newContextSetCommand() *cobra.Command {
	var given client.Settings
	var current bool
	cmd := &cobra.Command{
		Use:   "set CONTEXT",
		Short: "Add a context, or change one",
		Long: `Add a context, or change those of its settings that are given. The credentials are checked. The first
context becomes the current one.`,
		Example: `  weir context set prod --addresses host1:7701,host2:7701,host3:7701 --credentials certs/user-ann --use
  weir context set lab --addresses 10.0.0.5:7701 --insecure-plaintext --user ada`,
		ValidArgsFunction: completeContext,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var settings client.Settings
		contexts, err := changeContexts(func(c *client.Contexts) error {
			settings = c.Named[args[0]].Override(given)
			if err := c.Set(args[0], settings); err != nil {
				return err
			}
			if current {
				c.Current = args[0]
			}
			_, err := settings.Config()
			return err
		})
		if err != nil {
			return err
		}
		r := reachOf(settings)
		fmt.Fprintf(cmd.OutOrStdout(), "context %s: %s at %s%s\n", args[0], r.as(), strings.Join(r.Addresses, ", "), when(contexts.Current == args[0], " (current)"))
		noteOther(newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), formatTable), contexts.Current)
		return nil
	}
	flags := cmd.Flags()
	registerSettings(flags, &given, "")
	flags.StringVar(&given.Cluster, "cluster", "", "id of the cluster; refuses credentials of another one")
	flags.StringVar(&given.User, "user", "", "with --insecure-plaintext: the name to use, which nothing checks")
	flags.BoolVar(&current, "use", false, "make it the current context")
	for _, name := range []string{"addresses", "cluster", "user"} {
		must(cmd.RegisterFlagCompletionFunc(name, fixed()))
	}
	return cmd
}

func newContextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "use CONTEXT",
		Short:             "Make a context the current one",
		Example:           "  weir context use prod",
		ValidArgsFunction: completeContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			contexts, err := changeContexts(func(c *client.Contexts) error {
				c.Current = args[0]
				_, err := c.Find(args[0])
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "current context: %s\n", args[0])
			noteOther(newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), formatTable), contexts.Current)
			return nil
		},
	}
}

func newContextRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "remove CONTEXT",
		Short:             "Remove a context",
		Long:              "Remove a context. Its credentials stay where they are.",
		Example:           "  weir context remove lab",
		SuggestFor:        suggestRemove,
		ValidArgsFunction: completeContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			contexts, err := changeContexts(func(c *client.Contexts) error { return c.Remove(args[0]) })
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed context %s%s\n", args[0], when(contexts.Current == "", "; no context is current: weir context use"))
			return nil
		},
	}
}
