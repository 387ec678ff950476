package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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

Without FOLDER, all runs are healed whose folder is a temporary one, and what is no run
is passed over.`,
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
				if !given && (errors.Is(err, errRunning) || errors.Is(err, errNoRun)) {
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

// errNoRun is returned for a folder of something else.
var errNoRun = errors.New("no folder of weir chaos run")

// ownerFile is in the folder of a run, before anything else: the process that presses.
const ownerFile = "owner.json"

// own makes this process the owner of the run in dir.
func own(dir string) error {
	self, err := devcluster.Self()
	if err != nil {
		return fmt.Errorf("own run: %w", err)
	}
	data, err := json.Marshal(self)
	if err != nil {
		return fmt.Errorf("own run: %w", err)
	}
	// Who reads it sees all of it or nothing.
	next := filepath.Join(dir, ownerFile+".new")
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("own run: %w", err)
	}
	if err := os.Rename(next, filepath.Join(dir, ownerFile)); err != nil {
		return fmt.Errorf("own run: %w", err)
	}
	return nil
}

// ownerOf returns whose the run in dir is.
func ownerOf(dir string) (owner devcluster.Process, err error) {
	data, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return owner, errNoRun
	}
	if err == nil {
		err = json.Unmarshal(data, &owner)
	}
	if err != nil {
		return owner, fmt.Errorf("read %s: %w", ownerFile, err)
	}
	return owner, nil
}

// healRun ends what a run has left, and removes its folder.
func healRun(ctx context.Context, folder string, keep bool, screen *screen) error {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("heal run: %w", err)
	}
	owner, err := ownerOf(dir)
	switch {
	case errors.Is(err, errNoRun):
		return &exitError{exitUsage, fmt.Errorf("heal run: %s is %w", folder, err)}
	case err != nil:
		return fmt.Errorf("heal run %s: %w", folder, err)
	case owner.Alive():
		return fmt.Errorf("heal run %s: %w (pid %d)", folder, errRunning, owner.Pid)
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
