package main

import "github.com/spf13/cobra"

func newOpCommand(f *clientFlags) *cobra.Command {
	return group(&cobra.Command{
		Use:     "op",
		Aliases: []string{"operation"},
		Short:   "Start, follow and control operations",
		Long: `Start, follow and control operations.

An operation is work for many jobs. It is identified by its id, or by its alias if it has
one.`,
		Example: `  id=$(weir op start -f spec.yaml)
  weir op wait $id
  weir op list --in-progress`,
	},
		newOpStartCommand(f), newOpRetryCommand(f), newOpListCommand(f), newOpGetCommand(f), newOpWaitCommand(f), newOpEventsCommand(f), newOpInstancesCommand(f),
		newOpStatisticsCommand(f),
		newOpAbortCommand(f), newOpSuspendCommand(f), newOpResumeCommand(f), newOpCompleteCommand(f), newOpUpdateCommand(f))
}
