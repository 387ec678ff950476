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

func newOpUpdateCommand(f *clientFlags) *cobra.Command {
	var tree string
	var unset []string
	cmd := &cobra.Command{
		Use:   "update OPERATION OPTION=VALUE...",
		Short: "Change options and pool of an operation while it runs, by id or alias",
		Long: `Change options and pool of an operation while it runs, by id or alias: only those
given. Its jobs keep running. Without --tree the change applies to all of the
operation's trees.

Options are name=value; an empty value means the default, and pool=POOL moves it.

` + optionsHelp[pooltree.OperationOptions](),
		Example: `  weir op update '*nightly' weight=2 pool=ads
  weir op update '*nightly' resource_limits.user_slots=20 --tree gpu
  weir op update '*nightly' --unset weight`,
		Args:              atLeast("OPERATION"),
		ValidArgsFunction: f.completeOptions(operationNames(true), option.Fields(pooltree.OperationOptions{}), "pool"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		change, done, err := operationChange(args[1:], unset)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		change.Tree = tree
		return f.verb(func(ctx context.Context, s *session, _ []string) error {
			updated, err := s.UpdateOperation(ctx, &apipb.UpdateOperationRequest{Operation: args[0], Changes: []*apipb.OperationChange{change}})
			if err != nil {
				return err
			}
			for _, warning := range updated.GetWarnings() {
				s.note("%s", warning)
			}
			return s.said(updated, "changed operation %s: %s", args[0], done)
		})(cmd, args)
	}
	cmd.Flags().StringVar(&tree, "tree", "", "change it in this tree only (default: all of its trees)")
	cmd.Flags().StringSliceVar(&unset, "unset", nil, "options to reset to their defaults")
	mustComplete(cmd, "tree", f.suggest(false, treeNames))
	mustComplete(cmd, "unset", fixed(optionNames(pooltree.OperationOptions{})...))
	return cmd
}

// operationChange reads the arguments of a change, and says what it is.
func operationChange(given, unset []string) (change *apipb.OperationChange, done string, err error) {
	change = &apipb.OperationChange{}
	var rest []string
	for _, argument := range given {
		pool, ok := strings.CutPrefix(argument, "pool=")
		switch {
		case !ok:
			rest = append(rest, argument)
		case change.Pool != nil:
			return nil, "", fmt.Errorf("%s: pool is given twice", argument)
		default:
			change.Pool = &pool
		}
	}
	values, err := assignments[pooltree.OperationOptions](rest, unset)
	if err != nil {
		return nil, "", err
	}
	if len(values) == 0 && change.Pool == nil {
		return nil, "", errNothing
	}
	var said []string
	if change.Pool != nil {
		said = []string{"pool=" + *change.Pool}
	}
	change.Options, err = structOf(values)
	return change, changesText(values, said...), err
}
