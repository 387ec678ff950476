package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

const (
	// temporaryFolder is the folder in the job's folder that a strictly isolated job sees as
	// each of temporaryPlaces.
	temporaryFolder = "tmp"
	// hiddenSize and devicesSize are the sizes of tmpfs mounts that hold little but names.
	hiddenSize, devicesSize = "256k", "64k"
)

// temporaryPlaces are writable for everyone, so a job gets its own.
var temporaryPlaces = []string{"/tmp", "/var/tmp"}

// devices are the devices of a strictly isolated job. The patterns match hardware that jobs
// compute on.
var devices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
	"/dev/nvidia*", "/dev/dri/*", "/dev/kfd",
}

// deviceLinks are links that programs expect in /dev.
var deviceLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

// rootfs is the view of the machine's files of a separate job: hidden files are missing. For a strictly
// isolated job all files are also read-only except its own. The view is built in a mount namespace
// made for it, where /proc shows the job's own processes already.
type rootfs struct {
	spec   *proxyproto.Spec
	folder string
	// visible, temporary and devices are the mounts that putBack mounts again.
	visible, temporary, devices []keptMount
}

// keptMount is a clone of an original mount, and the path at which the job finds it.
type keptMount struct {
	path string
	tree int
}

// build changes the current mount namespace.
func (r *rootfs) build() error {
	strict := r.strict()
	steps := []struct {
		name string
		do   func() error
		// wanted: the job has an isolation for which the step is needed.
		wanted bool
	}{
		// Other jobs go on to see mounts that are made outside later: see ownMounts.
		{"make mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }, strict},
		{"clone the job's own mounts", r.keep, true},
		{"make all mounts read-only", func() error { return readOnly("/", true) }, strict},
		{"mount the job's own /tmp", func() error { return putBack(r.temporary, nil) }, strict},
		{"mount the job's own /dev", r.replaceDevices, strict},
		{"put back /proc", mountProc, strict},
		{"hide " + r.spec.Hidden, r.hide, true},
	}
	for _, step := range steps {
		if !step.wanted {
			continue
		}
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (r *rootfs) strict() bool { return r.spec.Isolation == proxyproto.IsolationStrict }

// keep opens the original mounts before they are covered and made read-only, so that putBack
// can restore them writable.
func (r *rootfs) keep() (err error) {
	keep := func(kept *[]keptMount, path, place string) {
		if err == nil {
			err = keepTree(kept, path, place)
		}
	}
	for _, path := range r.spec.Visible {
		keep(&r.visible, path, path)
	}
	if !r.strict() {
		return err
	}
	for _, place := range temporaryPlaces {
		if info, err := os.Lstat(place); err == nil && info.IsDir() {
			keep(&r.temporary, filepath.Join(r.folder, temporaryFolder), place)
		}
	}
	for _, pattern := range devices {
		// Glob fails only for a bad pattern, and these are valid.
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			keep(&r.devices, path, path)
		}
	}
	return err
}

// keepTree clones the mounts at and below path.
func keepTree(kept *[]keptMount, path, place string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return &os.PathError{Op: "clone mount of", Path: path, Err: err}
	}
	*kept = append(*kept, keptMount{path: place, tree: tree})
	return nil
}

// putBack mounts the clones at their paths. If `place` is not nil, it creates each path first.
func putBack(kept []keptMount, place func(path string) error) error {
	for _, k := range kept {
		if place != nil {
			if err := place(k.path); err != nil {
				return err
			}
		}
		if err := unix.MoveMount(k.tree, "", unix.AT_FDCWD, k.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "mount at", Path: k.path, Err: err}
		}
		if err := unix.Close(k.tree); err != nil {
			return err
		}
	}
	return nil
}

// replaceDevices builds a /dev with harmless devices, and with shared memory and terminals of
// the job's own.
func (r *rootfs) replaceDevices() error {
	if err := unix.Mount("weir", "/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size="+devicesSize); err != nil {
		return err
	}
	err := putBack(r.devices, func(path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, nil, 0o666)
	})
	if err != nil {
		return err
	}
	for name, target := range deviceLinks {
		if err := os.Symlink(target, filepath.Join("/dev", name)); err != nil {
			return err
		}
	}
	shared := "mode=1777"
	if r.spec.MemoryLimit > 0 {
		shared += fmt.Sprintf(",size=%d", r.spec.MemoryLimit)
	}
	for folder, kind := range map[string][2]string{"/dev/shm": {"tmpfs", shared}, "/dev/pts": {"devpts", "newinstance,ptmxmode=0666,mode=0620"}} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("weir", folder, kind[0], unix.MS_NOSUID|unix.MS_NOEXEC, kind[1]); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return readOnly("/dev", false)
}

// hide covers the hidden folder, and mounts the parts that the job may see. A folder below the
// replaced /tmp is hidden already.
func (r *rootfs) hide() error {
	covered := !r.strict() || !underTemporary(r.spec.Hidden)
	if covered {
		if err := unix.Mount("weir", r.spec.Hidden, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0711,size="+hiddenSize); err != nil {
			return err
		}
	}
	if err := putBack(r.visible, func(path string) error { return os.MkdirAll(path, 0o711) }); err != nil || !covered {
		return err
	}
	return readOnly(r.spec.Hidden, false)
}

func underTemporary(path string) bool {
	return slices.ContainsFunc(temporaryPlaces, func(place string) bool { return strings.HasPrefix(path+"/", place+"/") })
}

// readOnly makes the mount at path read-only, and, if recursive is set, those below it.
func readOnly(path string, recursive bool) error {
	flags := uint(0)
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	return unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}
