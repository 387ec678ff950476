package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// editFlags are what the verbs that change pools share.
type editFlags struct {
	revision uint64
}

func (e *editFlags) register(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&e.revision, "expected-revision", 0, "change nothing unless the tree has this revision (default: any)")
}

// edit makes edits of the tree as one, and tells what they were.
func (p *poolFlags) edit(ctx context.Context, s *session, e *editFlags, done string, edits ...*apipb.TreeEdit) error {
	answer, err := s.EditTree(ctx, &apipb.EditTreeRequest{Tree: p.tree, Edits: edits, ExpectedRevision: e.revision})
	if err != nil {
		return err
	}
	return s.said(answer, "%s (tree %s, revision %d)", done, answer.GetTree(), answer.GetRevision())
}

// poolParent takes parent=POOL out of arguments.
func poolParent(given []string) (parent *string, rest []string, err error) {
	for _, argument := range given {
		name, ok := strings.CutPrefix(argument, "parent=")
		switch {
		case !ok:
			rest = append(rest, argument)
		case parent != nil:
			return nil, nil, fmt.Errorf("%s: parent is given twice", argument)
		default:
			parent = &name
		}
	}
	return parent, rest, nil
}

var poolOptionsHelp = `Options are name=value; names in groups are joined by a dot or a slash, and
an empty value means the default. Values are written in YAML:

  weight=3  resource_limits.cpu=10  resource_limits='{cpu: 10, memory: 4GiB}'

` + optionsHelp[pooltree.PoolOptions]()

func newPoolCreateCommand(f *poolFlags) *cobra.Command {
	var e editFlags
	var parent string
	cmd := &cobra.Command{
		Use:   "create POOL [OPTION=VALUE...]",
		Short: "Create a pool",
		Long:  "Create a pool.\n\n" + poolOptionsHelp,
		Example: `  weir pool create ads weight=2
  weir pool create ads-prod --parent ads max_running_operation_count=8 strong_guarantee_resources.cpu=10
  weir pool create nightly mode=fifo fifo_sort_parameters='[start_time]'`,
		Args:              atLeast("POOL"),
		ValidArgsFunction: f.completeOptions(nil, option.Fields(pooltree.PoolOptions{}), "parent"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		named, given, err := poolParent(args[1:])
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if named != nil {
			parent = *named
		}
		values, err := assignments[pooltree.PoolOptions](given, nil)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		options, err := documentOf[pooltree.PoolOptions](values)
		if err == nil {
			_, err = pooltree.ReadPoolOptions(options.AsMap())
		}
		if err != nil {
			return &exitError{exitUsage, err}
		}
		return f.verb(func(ctx context.Context, s *session, _ []string) error {
			return f.edit(ctx, s, &e, "created pool "+args[0], &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{
				Create: &apipb.Pool{Name: args[0], Parent: parent, Options: options},
			}})
		})(cmd, args)
	}
	e.register(cmd)
	cmd.Flags().StringVar(&parent, "parent", "", "parent pool (default: the root of the tree)")
	mustComplete(cmd, "parent", f.suggest(false, f.names))
	return cmd
}

func newPoolSetCommand(f *poolFlags) *cobra.Command {
	var e editFlags
	var unset []string
	cmd := &cobra.Command{
		Use:   "set POOL OPTION=VALUE...",
		Short: "Change options of a pool",
		Long: `Change options of a pool: only those given. parent=POOL moves it.

--expected-revision guards against concurrent changes: nothing is changed
unless the tree is still at the revision that weir pool get showed.

` + poolOptionsHelp,
		Example: `  weir pool set ads weight=3 strong_guarantee_resources.cpu=10
  weir pool set ads max_operation_count= --unset resource_limits
  weir pool set ads-prod parent=batch --expected-revision 7`,
		Args:              atLeast("POOL"),
		ValidArgsFunction: f.completeOptions(f.names, option.Fields(pooltree.PoolOptions{}), "parent"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		parent, given, err := poolParent(args[1:])
		if err != nil {
			return &exitError{exitUsage, err}
		}
		values, err := assignments[pooltree.PoolOptions](given, unset)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if len(values) == 0 && parent == nil {
			return &exitError{exitUsage, errNothing}
		}
		options, err := structOf(values)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		var said []string
		if parent != nil {
			said = []string{"parent=" + *parent}
		}
		return f.verb(func(ctx context.Context, s *session, _ []string) error {
			return f.edit(ctx, s, &e, fmt.Sprintf("changed pool %s: %s", args[0], changesText(values, said...)), &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{
				Change: &apipb.PoolChange{Name: args[0], Parent: parent, Options: options},
			}})
		})(cmd, args)
	}
	e.register(cmd)
	cmd.Flags().StringSliceVar(&unset, "unset", nil, "options to reset to their defaults")
	mustComplete(cmd, "unset", fixed(optionNames(pooltree.PoolOptions{})...))
	return cmd
}

// optionNames returns the paths of the options of a struct.
func optionNames(schema any) []cobra.Completion {
	var out []cobra.Completion
	for _, field := range option.Fields(schema) {
		out = append(out, field.Path)
	}
	return out
}

func newPoolMoveCommand(f *poolFlags) *cobra.Command {
	var e editFlags
	cmd := &cobra.Command{
		Use:               "move POOL PARENT",
		Short:             "Move a pool and all pools below it to another parent",
		Long:              "Move a pool and all pools below it to another parent; '<Root>' is the root of the tree.",
		Example:           "  weir pool move ads-prod batch\n  weir pool move ads-prod '<Root>'",
		Args:              takes("POOL", "PARENT"),
		ValidArgsFunction: f.suggest(false, f.names),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return f.edit(ctx, s, &e, fmt.Sprintf("moved pool %s below %s", args[0], args[1]), &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{
				Change: &apipb.PoolChange{Name: args[0], Parent: &args[1]},
			}})
		}),
	}
	e.register(cmd)
	return cmd
}

func newPoolRenameCommand(f *poolFlags) *cobra.Command {
	var e editFlags
	cmd := &cobra.Command{
		Use:               "rename POOL NAME",
		Short:             "Rename a pool; it keeps its operations and its volume",
		Example:           "  weir pool rename ads advertising",
		Args:              takes("POOL", "NAME"),
		ValidArgsFunction: f.suggest(true, f.names),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return f.edit(ctx, s, &e, fmt.Sprintf("renamed pool %s to %s", args[0], args[1]), &apipb.TreeEdit{Edit: &apipb.TreeEdit_Rename{
				Rename: &apipb.RenamePool{From: args[0], To: args[1]},
			}})
		}),
	}
	e.register(cmd)
	return cmd
}

func newPoolRemoveCommand(f *poolFlags) *cobra.Command {
	var e editFlags
	cmd := &cobra.Command{
		Use:               "remove POOL",
		SuggestFor:        suggestRemove,
		Short:             "Remove a pool that has no pools and no operations in progress",
		Example:           "  weir pool remove ads",
		Args:              takes("POOL"),
		ValidArgsFunction: f.suggest(true, f.names),
		RunE: f.verb(func(ctx context.Context, s *session, args []string) error {
			return f.edit(ctx, s, &e, "removed pool "+args[0], &apipb.TreeEdit{Edit: &apipb.TreeEdit_Remove{Remove: args[0]}})
		}),
	}
	e.register(cmd)
	return cmd
}
