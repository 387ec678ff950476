package chaosrun

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

	"weir/cmd/weir/internal/devcluster"
	"weir/cmd/weir/internal/screen"
)

// TemporaryPrefix is the prefix of the temporary folders of runs.
const TemporaryPrefix = "weir-chaos-"

// ErrRunning is returned for a run that is still in progress.
var ErrRunning = errors.New("this run is in progress: press Ctrl-C there to end it")

// ErrNoRun is returned for a folder that is not a run's.
var ErrNoRun = errors.New("not a folder of weir chaos run")

// OwnerFile names the process that owns the run. It is the first file in the run's folder.
const OwnerFile = "owner.json"

// Own makes this process the owner of the run in dir.
func Own(dir string) error {
	self, err := devcluster.Self()
	if err == nil {
		err = devcluster.WriteJSON(filepath.Join(dir, OwnerFile), self)
	}
	if err != nil {
		return fmt.Errorf("own run: %w", err)
	}
	return nil
}

// ownerOf returns the process that owns the run in dir.
func ownerOf(dir string) (owner devcluster.Process, err error) {
	data, err := os.ReadFile(filepath.Join(dir, OwnerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return owner, ErrNoRun
	}
	if err == nil {
		err = json.Unmarshal(data, &owner)
	}
	if err != nil {
		return owner, fmt.Errorf("read %s: %w", OwnerFile, err)
	}
	return owner, nil
}

// Heal ends everything that a run left behind, and removes its folder unless keep is set.
// The error is ErrNoRun if the folder is not a run's, and ErrRunning if the run is in progress.
// `sweep` ends what an agent left behind.
func Heal(ctx context.Context, folder string, keep bool, sweep func(devcluster.Member) error, display *screen.Screen) error {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("heal run: %w", err)
	}
	owner, err := ownerOf(dir)
	switch {
	case errors.Is(err, ErrNoRun):
		return fmt.Errorf("heal run: %s is %w", folder, err)
	case err != nil:
		return fmt.Errorf("heal run %s: %w", folder, err)
	case owner.Alive():
		return fmt.Errorf("heal run %s: %w (pid %d)", folder, ErrRunning, owner.Pid)
	}
	if err := healCluster(ctx, dir, sweep); err != nil {
		return fmt.Errorf("heal run %s: %w", folder, err)
	}
	if left, err := Processes(dir + string(filepath.Separator)); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("heal run %s: still running: %s", folder, strings.Join(left, "; ")))
	}
	if keep {
		display.Say(fmt.Sprintf("cleaned up; histories, logs and data: %s", folder))
		return nil
	}
	display.Say("cleaned up and removed " + folder)
	return os.RemoveAll(dir)
}

// healCluster ends the cluster of the run in dir. The cluster's record lists all processes:
// it is on disk before any of them starts.
func healCluster(ctx context.Context, dir string, sweep func(devcluster.Member) error) error {
	root := filepath.Join(dir, ClusterFolder)
	record, err := devcluster.Load(root)
	if errors.Is(err, devcluster.ErrNone) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ending := devcluster.Ending{StopTimeout: devcluster.DefaultStopTimeout, Sweep: sweep, Preserve: filepath.Join(dir, MembersFolder)}
	if _, err := devcluster.Down(ctx, root, ending); err != nil {
		return err
	}
	agents := slices.DeleteFunc(record.Members, func(m devcluster.Member) bool { return m.Kind != devcluster.Agent })
	for _, m := range agents {
		groups, err := ControlGroups(m.Name)
		if err != nil || len(groups) > 0 {
			return errors.Join(err, fmt.Errorf("node %s: still there: %s", m.Name, strings.Join(groups, "; ")))
		}
	}
	return nil
}
