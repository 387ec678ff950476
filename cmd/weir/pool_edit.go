package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"weir/messages/apipb"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

// edits makes cmd call `edit`, apply the tree edit that it returns, and print the text `done`.
func (p *poolFlags) edits(cmd *cobra.Command, edit func(args []string) (done string, edit *apipb.TreeEdit)) *cobra.Command {
	registerRevision(cmd, &p.revision)
	cmd.RunE = p.verb(func(ctx context.Context, s *session, args []string) error {
		done, edit := edit(args)
		answer, err := s.EditTree(ctx, &apipb.EditTreeRequest{Tree: p.tree, Edits: []*apipb.TreeEdit{edit}, ExpectedRevision: p.revision})
		return s.said(err, answer, "%s (tree %s, revision %d)", done, answer.GetTree(), answer.GetRevision())
	})
	return cmd
}

// registerRevision adds the flag that guards a change against concurrent ones.
func registerRevision(cmd *cobra.Command, revision *uint64) {
	cmd.Flags().Uint64Var(revision, "expected-revision", 0, "change nothing unless the tree has this revision (default: any)")
}

var poolOptionsHelp = `Options are name=value; names in groups are joined by a dot or a slash, and
an empty value means the default. Values are written in YAML:

  weight=3  resource_limits.cpu=10  resource_limits='{cpu: 10, memory: 4GiB}'

` + optionsHelp[pooltree.PoolOptions]()

func newPoolCreateCommand(f *poolFlags) *cobra.Command {
	pool := &apipb.Pool{}
	cmd := f.edits(&cobra.Command{
		Use:   "create POOL [OPTION=VALUE...]",
		Short: "Create a pool",
		Long:  "Create a pool.\n\n" + poolOptionsHelp,
		Example: `  weir pool create ads weight=2
  weir pool create ads-prod --parent ads max_running_operation_count=8 strong_guarantee_resources.cpu=10
  weir pool create nightly mode=fifo fifo_sort_parameters='[start_time]'`,
		ValidArgsFunction: f.completeOptions(nil, option.Fields(pooltree.PoolOptions{}), "parent"),
	}, func(args []string) (string, *apipb.TreeEdit) {
		pool.Name = args[0]
		return "created pool " + args[0], &apipb.TreeEdit{Edit: &apipb.TreeEdit_Create{Create: pool}}
	})
	checked(cmd, func(args []string) error {
		parent, given, err := takeOut("parent", args[1:])
		if err != nil {
			return err
		}
		if parent != nil {
			pool.Parent = *parent
		}
		pool.Options, err = newOptions(given, pooltree.ReadPoolOptions)
		return err
	})
	cmd.Flags().StringVar(&pool.Parent, "parent", "", "parent pool (default: the root of the tree)")
	return cmd
}

func newPoolSetCommand(f *poolFlags) *cobra.Command {
	var unset []string
	var done string
	change := &apipb.PoolChange{}
	cmd := f.edits(&cobra.Command{
		Use:   "set POOL OPTION=VALUE...",
		Short: "Change options of a pool",
		Long: `Change options of a pool: only those given. parent=POOL moves it.

--expected-revision guards against concurrent changes: nothing is changed
unless the tree is still at the revision that weir pool get showed.

` + poolOptionsHelp,
		Example: `  weir pool set ads weight=3 strong_guarantee_resources.cpu=10
  weir pool set ads max_operation_count= --unset resource_limits
  weir pool set ads-prod parent=batch --expected-revision 7`,
		ValidArgsFunction: f.completeOptions(poolNamesOfTree, option.Fields(pooltree.PoolOptions{}), "parent"),
	}, func(args []string) (string, *apipb.TreeEdit) {
		change.Name = args[0]
		return fmt.Sprintf("changed pool %s: %s", args[0], done), &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: change}}
	})
	checked(cmd, func(args []string) (err error) {
		change.Parent, change.Options, done, err = changeOf[pooltree.PoolOptions]("parent", args[1:], unset)
		return err
	})
	registerUnset(cmd, &unset, pooltree.PoolOptions{})
	return cmd
}

// registerUnset adds the flag that resets options of schema to their defaults.
func registerUnset(cmd *cobra.Command, unset *[]string, schema any) {
	cmd.Flags().StringSliceVar(unset, "unset", nil, "options to reset to their defaults")
	var names []cobra.Completion
	for _, field := range option.Fields(schema) {
		names = append(names, field.Path)
	}
	must(cmd.RegisterFlagCompletionFunc("unset", fixed(names...)))
}
