package rolling

import (
	"errors"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
)

// NewCommand returns the verb weir dev upgrade. `usage` marks an error as a mistake in the command
// line; `folder` registers the flag with the folder of the cluster.
func NewCommand(usage func(error) error, folder func(cmd *cobra.Command, dir *string)) *cobra.Command {
	var u Upgrade
	var from string
	cmd := &cobra.Command{
		Use:   "upgrade --from FOLDER",
		Short: "Replace the programs of a running cluster, one process after another",
		Long: `Replace the programs of the cluster in this folder by weir and weir-jobproxy of another
folder, one process after another, while it works: agents, then followers; then
leadership is handed over, and the replica that led comes last. Jobs go on, and no
operation fails. Each step says for how long no write was acknowledged.

The same way leads back, as long as weir cluster upgrade finish has not been run.`,
		Example: `  make previous build
  bin/previous/COMMIT/weir dev up                # the previous version
  bin/weir dev upgrade --from bin                # in another terminal
  bin/weir dev upgrade --from bin/previous/COMMIT`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if from == "" {
				return usage(errors.New("--from is needed: folder with the programs weir and weir-jobproxy"))
			}
			if u.With, err = devcluster.ProgramsIn(from); err != nil {
				return usage(err)
			}
			defaults := devcluster.Default()
			// An agent that ends its jobs, or a replica that hands over, takes seconds on a busy machine.
			u.Stop, u.Ready = 3*defaults.StopTimeout, defaults.ReadyTimeout
			u.Say = screen.New(cmd.OutOrStdout()).Say
			return u.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "folder with the programs weir and weir-jobproxy")
	folder(cmd, &u.Dir)
	return cmd
}
