package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/chaos/history"
	"weir/cmd/weir/internal/devcluster"
)

func newChaosHealCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "heal [FOLDER]...",
		Short: "Clean up after runs that could not do it themselves",
		Long: `Clean up after runs that were killed (-9) before they could heal what they had done:
end what lives of their clusters, paused or not, and of the jobs, and remove control
groups and folders. Cut connections need no healing: they were in a network that is gone
with the processes in it. Runs that go on are left alone.

Without FOLDER, all runs are healed whose folder is a temporary one.`,
		Example: `  weir chaos heal
  weir chaos heal --keep runs/monday`,
		RunE: func(cmd *cobra.Command, folders []string) error {
			given := len(folders) > 0
			if !given {
				var err error
				if folders, err = filepath.Glob(filepath.Join(os.TempDir(), chaosFolder+"*")); err != nil {
					return fmt.Errorf("look for runs: %w", err)
				}
			}
			screen := newScreen(cmd.OutOrStdout())
			var errs []error
			for _, folder := range folders {
				err := healRun(cmd.Context(), folder, keep, screen)
				if errors.Is(err, errRunning) && !given {
					screen.Say(err.Error())
					continue
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep histories, logs and data of the runs")
	return cmd
}

// chaosFolder begins the names of the temporary folders of runs.
const chaosFolder = "weir-chaos-"

// errRunning is returned for a run that goes on.
var errRunning = errors.New("this run goes on: Ctrl-C ends it")

// healRun ends what a run has left, and removes its folder.
func healRun(ctx context.Context, folder string, keep bool, screen *screen) error {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("heal run: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, history.NemesisFile)); err != nil {
		return &exitError{exitUsage, fmt.Errorf("heal run: %s is no folder of weir chaos run: %w", folder, err)}
	}
	if err := healCluster(ctx, dir); err != nil {
		return fmt.Errorf("heal run %s: %w", folder, err)
	}
	if left, err := processesWith(dir + string(filepath.Separator)); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("heal run %s: still there: %s", folder, strings.Join(left, "; ")))
	}
	if keep {
		screen.Say(fmt.Sprintf("healed; histories, logs and data are in %s", folder))
		return nil
	}
	screen.Say("healed and removed " + folder)
	return os.RemoveAll(dir)
}

// healCluster ends the cluster of the run in dir. The cluster's own record says what
// there is to end: it is on disk before anything is started.
func healCluster(ctx context.Context, dir string) error {
	root := filepath.Join(dir, clusterFolder)
	record, err := devcluster.Load(root)
	if errors.Is(err, devcluster.ErrNone) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if record.Owner.Alive() {
		return fmt.Errorf("%w (pid %d)", errRunning, record.Owner.Pid)
	}
	ending := devcluster.Ending{StopTimeout: devcluster.DefaultStopTimeout, Sweep: sweepAgent, Preserve: filepath.Join(dir, membersFolder)}
	if _, err := devcluster.Down(ctx, root, ending); err != nil {
		return err
	}
	agents := slices.DeleteFunc(record.Members, func(m devcluster.Member) bool { return m.Kind != devcluster.Agent })
	for _, m := range agents {
		groups, err := groupsOf(m.Name)
		if err != nil || len(groups) > 0 {
			return errors.Join(err, fmt.Errorf("node %s: still there: %s", m.Name, strings.Join(groups, "; ")))
		}
	}
	return nil
}
