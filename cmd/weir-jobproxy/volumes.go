package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// volumes are the job's tmpfs mounts. They are in the proxy's own mount namespace, so that they
// disappear with the proxy and the job, however the two end.
type volumes struct {
	list []volume
	size int64
}

type volume struct {
	path string
	// root holds the file system open, whatever the job does to the mount.
	root int
}

// ownMounts makes sure that later mounts of this process are not visible outside. Later mounts made
// outside are visible here.
func ownMounts(spec *proxyproto.Spec) error {
	if spec.AgentMounts == "" {
		return nil
	}
	name, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("find mount namespace: %w", err)
	}
	if name == spec.AgentMounts {
		return fmt.Errorf("separate the job's mounts from the node's: the proxy is in the mount namespace of its agent, %s", name)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate the job's mounts from the node's: %w", err)
	}
	return nil
}

// mount mounts the volumes of the spec. It creates missing folders. Existing ones must be
// empty, because their content would be covered.
func (v *volumes) mount(spec *proxyproto.Spec) error {
	if len(spec.Tmpfs) == 0 {
		return nil
	}
	workspace, err := os.OpenRoot(spec.Workspace)
	if err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	defer workspace.Close()
	for _, wanted := range spec.Tmpfs {
		if err := v.mountOne(workspace, spec, wanted); err != nil {
			return errors.Join(fmt.Errorf("mount tmpfs %q: %w", wanted.Path, err), v.unmount())
		}
	}
	return nil
}

func (v *volumes) mountOne(workspace *os.Root, spec *proxyproto.Spec, wanted proxyproto.Tmpfs) error {
	if err := makeFolders(workspace, wanted.Path, spec.User); err != nil {
		return err
	}
	folder, err := workspace.Open(wanted.Path)
	if err != nil {
		return err
	}
	defer folder.Close()
	if names, _ := folder.Readdirnames(1); len(names) > 0 {
		return fmt.Errorf("the folder is not empty: it holds %q, which the mount would hide", names[0])
	}
	options := fmt.Sprintf("size=%d,mode=0755", wanted.Size)
	if spec.User != nil {
		options += fmt.Sprintf(",uid=%d,gid=%d", spec.User.UID, spec.User.GID)
	}
	// Mount by descriptor: the path may lead through links.
	target := fmt.Sprintf("/proc/self/fd/%d", folder.Fd())
	if err := unix.Mount("weir", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return err
	}
	mounted := volume{path: filepath.Join(workspace.Name(), wanted.Path)}
	if mounted.root, err = unix.Open(mounted.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return errors.Join(err, unix.Unmount(mounted.path, unix.MNT_DETACH))
	}
	v.list = append(v.list, mounted)
	v.size += wanted.Size
	return nil
}

// makeFolders creates a folder and missing folders above it. The job's user owns the new folders.
func makeFolders(workspace *os.Root, path string, user *proxyproto.User) error {
	if path == "." {
		return nil
	}
	if err := makeFolders(workspace, filepath.Dir(path), user); err != nil {
		return err
	}
	if err := workspace.Mkdir(path, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	if user == nil {
		return nil
	}
	return workspace.Chown(path, int(user.UID), int(user.GID))
}

// used returns the size of the content of all volumes, in bytes.
func (v *volumes) used() int64 {
	var sum int64
	for _, mounted := range v.list {
		var stat unix.Statfs_t
		if err := unix.Fstatfs(mounted.root, &stat); err == nil {
			sum += int64(stat.Blocks-stat.Bfree) * stat.Bsize
		}
	}
	return sum
}

// unmount frees the memory. All processes of the job must have gone.
func (v *volumes) unmount() error {
	var errs []error
	for _, mounted := range v.list {
		// By descriptor: the job may have put a link in the path.
		err := unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", mounted.root), unix.MNT_DETACH)
		// A job that runs as root may have unmounted the volume.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount tmpfs %s: %w", mounted.path, err))
		}
		errs = append(errs, unix.Close(mounted.root))
	}
	v.list = nil
	return errors.Join(errs...)
}
