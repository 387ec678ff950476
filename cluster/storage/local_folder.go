package storage

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is a folder that is held open: operations apply to it even if the path that led
// to it changes. Its methods take names of entries in it and do not follow links, because
// this process may have more rights than users who can change the names.
type folder struct {
	// file is open with O_PATH: it only serves as the base of other calls.
	file *os.File
	// path is the path that users see in errors.
	path string
	// step is called before each step, in tests.
	step func()
}

// again repeats a call that a signal has interrupted.
func again[T any](call func() (T, error)) (T, error) {
	for {
		if value, err := call(); !errors.Is(err, unix.EINTR) {
			return value, err
		}
	}
}

// act is `again` for calls that return only an error.
func act(call func() error) error {
	_, err := again(func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// hold opens the folder with this name, which must not be a link; `in` is the descriptor of the
// folder that contains name, or AT_FDCWD for the working directory.
func hold(in int, name, path string, step func()) (*folder, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(in, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return &folder{file: os.NewFile(uintptr(fd), path), path: path, step: step}, nil
}

func (d *folder) close() {
	// Nothing was written through this descriptor.
	_ = d.file.Close()
}

// fd returns the descriptor for one call.
func (d *folder) fd() int {
	if d.step != nil {
		d.step()
	}
	return int(d.file.Fd())
}

// into opens a folder in this one.
func (d *folder) into(name string) (*folder, error) {
	return hold(d.fd(), name, filepath.Join(d.path, name), d.step)
}

// walk opens the folder at a path below this one; "." is the folder itself.
func (d *folder) walk(below string) (*folder, error) {
	at, err := d.into(".")
	for segment := range strings.SplitSeq(below, "/") {
		if err != nil {
			break
		}
		if segment == "." || segment == "" {
			continue
		}
		above := at
		at, err = above.into(segment)
		above.close()
	}
	return at, err
}

// open opens a file; it does not block if the file is a pipe.
func (d *folder) open(name string, flags int, mode uint32) (*os.File, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(d.fd(), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), nil
}

// stat describes the entry with a name. For a link, that is the link itself, not its target.
func (d *folder) stat(name string) (is unix.Stat_t, err error) {
	err = act(func() error { return unix.Fstatat(d.fd(), name, &is, unix.AT_SYMLINK_NOFOLLOW) })
	return is, err
}

// names returns all names, sorted.
func (d *folder) names() ([]string, error) {
	var names []string
	err := d.opened(func(f *os.File) (err error) {
		names, err = f.Readdirnames(-1)
		return err
	})
	slices.Sort(names)
	return names, err
}

// opened calls `do` with the folder opened for reading.
func (d *folder) opened(do func(f *os.File) error) error {
	f, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// sync makes the folder's entries durable.
func (d *folder) sync() error {
	return plain(d.opened((*os.File).Sync))
}

// make makes a folder that only this process's user can access.
func (d *folder) make(name string) error {
	return act(func() error { return unix.Mkdirat(d.fd(), name, 0o700) })
}

// build makes a folder with an unused name.
func (d *folder) build() (*folder, error) {
	name := buildingName()
	if err := d.make(name); err != nil {
		return nil, err
	}
	return d.into(name)
}

func buildingName() string { return building + rand.Text() }

// link gives a file one more name, in a folder of the same file system.
func (d *folder) link(name string, to *folder, as string) error {
	return act(func() error { return unix.Linkat(d.fd(), name, to.fd(), as, 0) })
}

// remove removes a file or a link; it returns nil if there is none.
func (d *folder) remove(name string) error {
	return gone(act(func() error { return unix.Unlinkat(d.fd(), name, 0) }))
}

// removeFolder removes an empty folder; it returns nil if there is none.
func (d *folder) removeFolder(name string) error {
	return gone(act(func() error { return unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR) }))
}

// removeAll removes the entry with a name and everything in it.
func (d *folder) removeAll(name string) error {
	err := d.remove(name)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	within, intoErr := d.into(name)
	if errors.Is(intoErr, unix.ENOTDIR) {
		return err
	}
	if intoErr != nil {
		return gone(intoErr)
	}
	defer within.close()
	if err := within.clear(); err != nil {
		return err
	}
	return d.removeFolder(name)
}

// clear removes everything in a folder. Other processes may do the same concurrently, and may
// remove the folder itself.
func (d *folder) clear() error {
	names, err := d.names()
	err = gone(err)
	for _, name := range names {
		err = errors.Join(err, d.removeAll(name))
	}
	return err
}

// gone returns err, or nil if err says that an entry to be removed does not exist.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// inode identifies a file.
type inode struct{ device, number uint64 }

func inodeOf(is unix.Stat_t) inode { return inode{is.Dev, is.Ino} }

// same reports whether two names are the same file.
func same(a *folder, name string, b *folder, other string) bool {
	one, err := a.stat(name)
	if err != nil {
		return false
	}
	two, err := b.stat(other)
	return err == nil && inodeOf(one) == inodeOf(two)
}

// isKind reports whether an entry has a type, such as S_IFREG.
func isKind(is unix.Stat_t, kind uint32) bool { return is.Mode&unix.S_IFMT == kind }

// kinds names the types other than regular files.
var kinds = map[uint32]string{
	unix.S_IFDIR: "folder", unix.S_IFLNK: "link", unix.S_IFIFO: "pipe", unix.S_IFSOCK: "socket", unix.S_IFBLK: "device", unix.S_IFCHR: "device",
}

// kind names the type of an entry that is not a regular file.
func kind(is unix.Stat_t) string { return cmp.Or(kinds[is.Mode&unix.S_IFMT], "special file") }
