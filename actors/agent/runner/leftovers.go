package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proxyproto"
)

// stopSignal keeps a process from doing anything until it is killed.
const stopSignal = unix.SIGSTOP

// removeLeftovers ends the jobs of an earlier life of the agent and removes all
// of them but their output. Proxies are known by pid and start time, so no
// process that came by the pid later is touched.
func (r *Runner) removeLeftovers() error {
	entries, err := os.ReadDir(r.paths.jobs())
	if err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	for _, entry := range entries {
		id := entry.Name()
		if err := r.removeLeftover(id); err != nil {
			return fmt.Errorf("remove leftover job %s: %w", id, err)
		}
		r.config.Logger.Info("job of an earlier life removed", "job", id)
	}
	// A folder may be gone and its group still there.
	groups, err := cgroup.Jobs(r.config.Cgroups.Node)
	if err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	for _, id := range groups {
		if err := endJob(r.config.Cgroups, id, r.paths.job(id), noProxy); err != nil {
			return fmt.Errorf("remove leftover group %s: %w", id, err)
		}
	}
	return nil
}

func (r *Runner) removeLeftover(id string) error {
	folder := r.paths.job(id)
	proxy := noProxy
	data, err := os.ReadFile(filepath.Join(folder, proxyproto.IdentityFile))
	switch {
	case err == nil:
		// The file is written whole or not at all; damage means that the disk
		// lost it, and then the machine has started anew.
		if err := json.Unmarshal(data, &proxy); err != nil {
			r.config.Logger.Warn("identity of a proxy is damaged", "job", id, "error", err)
			proxy = noProxy
		}
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
		return err
	}
	if err := endJob(r.config.Cgroups, id, folder, proxy); err != nil {
		return err
	}
	return removeTree(folder)
}

// removeTree removes a folder whose content may be protected from its owner.
func removeTree(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// A job may have taken away its own right to write into its folders.
	walkErr := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			if chmodErr := os.Chmod(path, 0o700); chmodErr != nil {
				return chmodErr
			}
			if err != nil {
				return nil
			}
		}
		return err
	})
	if walkErr != nil {
		return walkErr
	}
	return os.RemoveAll(folder)
}
