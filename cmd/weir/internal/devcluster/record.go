package devcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proctree"
	"weir/actors/agent/runner/proxyproto"
)

var (
	// ErrNone is returned when no cluster runs in a folder.
	ErrNone = errors.New("no cluster runs here")
	// ErrRunning is returned when a cluster runs in a folder already.
	ErrRunning = errors.New("a cluster runs here already")
)

// Process is one process of one boot of this machine. The zero Process means no process.
type Process struct {
	proxyproto.Identity
	Boot string `json:"boot"`
}

// Self returns this process.
func Self() (Process, error) { return identify(os.Getpid()) }

func identify(pid int) (Process, error) {
	found, err := proctree.Read(pid)
	if err != nil {
		return Process{}, err
	}
	return Process{Identity: found.Identity, Boot: bootID()}, nil
}

// bootID identifies this boot of the machine; "" if the kernel has no id for it.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Alive reports whether the process is running.
func (p Process) Alive() bool {
	return p.Pid != 0 && p.Boot == bootID() && proctree.Alive(p.Identity)
}

// Signal sends a signal to the process if it is running.
func (p Process) Signal(signal unix.Signal) error {
	if !p.Alive() {
		return nil
	}
	return proctree.Signal(p.Identity, signal)
}

// Record lists the processes of a cluster. Other processes learn from it what runs.
type Record struct {
	// Owner is the process that started the cluster and ends it when it ends itself.
	Owner Process `json:"owner"`
	// Detached is set once the cluster is up and Owner no longer owns it.
	Detached bool `json:"detached"`
	// Program is the path of weir, for members that have none of their own.
	Program string `json:"program"`
	Cluster string `json:"cluster"`
	// Access is how clients reach the cluster.
	Access  Access   `json:"access"`
	Members []Member `json:"members"`
}

// member returns the member called name.
func (r *Record) member(name string) (*Member, error) {
	var names []string
	for i := range r.Members {
		if r.Members[i].Name == name {
			return &r.Members[i], nil
		}
		names = append(names, r.Members[i].Name)
	}
	return nil, fmt.Errorf("unknown member %q: must be one of %s", name, strings.Join(names, ", "))
}

// condition is the state of a cluster.
type condition int

const (
	// owned: the owner is alive.
	owned condition = iota
	// detached: the cluster has no owner, but one of its processes is alive.
	detached
	// stale: the process that should have cleaned up is gone.
	stale
)

// condition returns the state of the cluster; alive reports whether a process is running.
func (r *Record) condition(alive func(Process) bool) condition {
	if alive(r.Owner) && !r.Detached {
		return owned
	}
	if !r.Detached {
		return stale
	}
	for _, m := range r.Members {
		if alive(m.Process) {
			return detached
		}
	}
	return stale
}

// Load reads the record of the cluster in dir. The error is ErrNone if no cluster runs there.
func Load(dir string) (*Record, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	data, err := os.ReadFile(layout{root}.record())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: weir dev up starts one", dir, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster: %w", err)
	}
	var record Record
	if err := json.Unmarshal(data, &record); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", layout{root}.record(), err)
	}
	return &record, nil
}

// LoadMember reads the record of one member of the cluster in dir.
func LoadMember(dir, name string) (*Member, error) {
	record, err := Load(dir)
	if err != nil {
		return nil, err
	}
	return record.member(name)
}

func (r *Record) save(paths layout) error {
	if err := WriteJSON(paths.record(), r); err != nil {
		return fmt.Errorf("write cluster: %w", err)
	}
	return nil
}

// WriteJSON replaces a file in one step: readers see the old content or the new.
func WriteJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// edit changes the record under the lock.
func edit(paths layout, change func(*Record) error) error {
	return locked(paths.root, func() error {
		record, err := Load(paths.root)
		if err != nil {
			return err
		}
		if err := change(record); err != nil {
			return err
		}
		return record.save(paths)
	})
}

// lockTimeout bounds the wait for other processes that work on the same folder. They hold
// the lock while they start a process or clean up.
const lockTimeout = time.Minute

// locked calls `work` while it holds the lock on the folder. The folder itself is locked, so that
// no lock file is left behind.
func locked(dir string, work func() error) error {
	var folder *os.File
	var err error
	Await(context.Background(), lockTimeout, func() bool {
		folder, err = TryLock(dir)
		return folder != nil || err != nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("lock folder: %w", err)
	case folder == nil:
		return fmt.Errorf("lock folder %s: another weir dev has held it for %v", dir, lockTimeout)
	}
	defer folder.Close()
	return work()
}

// TryLock locks a folder or a file until the returned file is closed. It returns nil if another process
// has the lock.
func TryLock(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, file.Close()
	case err != nil:
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, file.Close())
	}
	// It may have been removed, and created again, before it was locked.
	mine, err := file.Stat()
	now, gone := os.Stat(path)
	if err = errors.Join(err, gone); err == nil && os.SameFile(mine, now) {
		return file, nil
	}
	return nil, errors.Join(err, file.Close())
}
