package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/actors/agent/journal"
	"weir/raftstore/recordlog"
)

// ErrDamaged is returned for a file that does not hold what was written to it.
var ErrDamaged = errors.New("is damaged")

// folder is the agent's state folder, which outlives its processes.
type folder struct{ path string }

// openFolder opens a folder and creates it if missing. passable lets jobs that run as other
// users pass through the folder, without listing it.
func openFolder(path string, passable bool) (folder, error) {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return folder{}, fmt.Errorf("open state folder: %w", err)
	}
	if passable {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, info.Mode()|0o011)
		}
		if err != nil {
			return folder{}, fmt.Errorf("open state folder: %w", err)
		}
	}
	return folder{path: path}, nil
}

func (f folder) journalFile() string  { return filepath.Join(f.path, journal.FileName) }
func (f folder) replicasFile() string { return filepath.Join(f.path, "replicas.json") }

// placing returns the folder in which a job's files wait until it has a workspace.
func (f folder) placing(job string) string { return filepath.Join(f.path, "placing", job) }

// readReplicas returns the saved replicas; none for a new folder.
func (f folder) readReplicas() ([]Replica, error) {
	data, err := os.ReadFile(f.replicasFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read known replicas: %w", err)
	}
	var replicas []Replica
	if err := json.Unmarshal(data, &replicas); err != nil {
		return nil, fmt.Errorf("read known replicas: %s %w: %w", f.replicasFile(), ErrDamaged, err)
	}
	return replicas, nil
}

// writeReplicas replaces the saved replicas. After a power loss the file is the old one or the new
// one, never damaged: from a damaged file an agent would learn no replicas.
func (f folder) writeReplicas(replicas []Replica) error {
	data, err := json.MarshalIndent(replicas, "", "  ")
	if err != nil {
		return fmt.Errorf("write known replicas: %w", err)
	}
	file, err := recordlog.Create(f.replicasFile()+".new", append(data, '\n'))
	if err == nil {
		err = errors.Join(recordlog.Commit(file, f.replicasFile()), file.Close())
	}
	if err != nil {
		return fmt.Errorf("write known replicas: %w", err)
	}
	return nil
}

// measureFree returns the free space of a folder's disk.
func measureFree(dir string) (Free, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return Free{}, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	free := Free{Bytes: int64(min(disk.Bavail, 1<<40)) * disk.Bsize, Inodes: -1}
	if disk.Files > 0 {
		free.Inodes = int64(min(disk.Ffree, 1<<40))
	}
	return free, nil
}
