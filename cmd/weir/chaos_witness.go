package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/chaos/witness"
)

// newWitnessCommand is what jobs of a run are.
func newWitnessCommand() *cobra.Command {
	var dir string
	var length time.Duration
	cmd := &cobra.Command{
		Use: witness.Verb, Short: "Run as a job of a chaos run", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return witness.Run(cmd.Context(), dir, length, os.Getenv)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder for its records")
	cmd.Flags().DurationVar(&length, "for", time.Second, "how long the job runs")
	return cmd
}
