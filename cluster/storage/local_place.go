package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// local is storage on paths that are the same on replicas and nodes.
type local struct {
	roots []string
	// step is called before each file operation, in tests.
	step func()
}

// allowed returns ErrForbidden for a path that leads, directly or by links, outside the folders
// that may be used. The path need not exist.
func (l *local) allowed(name string) error {
	_, _, err := l.find(name)
	return err
}

// find returns the allowed folder that contains name, and the path below that folder, with all
// links resolved. The path need not exist.
func (l *local) find(name string) (root, below string, err error) {
	if len(l.roots) == 0 {
		return "", "", fmt.Errorf("%s: %w: none are allowed; start replicas with --data-root FOLDER", name, ErrForbidden)
	}
	found, err := resolve(name)
	if err != nil {
		return "", "", plain(err)
	}
	for _, root := range l.roots {
		if folder, err := filepath.EvalSymlinks(root); err == nil {
			root = folder
		}
		if below, err := filepath.Rel(root, found); err == nil && filepath.IsLocal(below) {
			return root, below, nil
		}
	}
	return "", "", fmt.Errorf("%s: %w: %s", name, ErrForbidden, strings.Join(l.roots, ", "))
}

// resolve follows the links in the part of a path that exists.
func resolve(name string) (string, error) {
	found, err := filepath.EvalSymlinks(name)
	if parent := filepath.Dir(name); err != nil && parent != name && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		found, err = resolve(parent)
		return filepath.Join(found, filepath.Base(name)), err
	}
	return found, err
}

// open opens a folder. Links in its path are resolved first; the result must be allowed and
// is then opened without following links, so that a concurrent rename cannot lead elsewhere.
func (l *local) open(path string) (*folder, error) {
	root, below, err := l.find(path)
	if err != nil {
		return nil, err
	}
	return l.enter(root, below, path)
}

// enter opens a folder that find has returned.
func (l *local) enter(root, below, path string) (*folder, error) {
	if l.step != nil {
		l.step()
	}
	// Stat triggers an automount. Its result does not matter: opening the folder shows
	// any error.
	_, _ = os.Stat(filepath.Join(root, below) + "/.")
	top, err := hold(unix.AT_FDCWD, root, root, l.step)
	if err != nil {
		return nil, err
	}
	defer top.close()
	held, err := top.walk(below)
	if err != nil {
		return nil, err
	}
	held.path = path
	return held, nil
}

// plain strips the file name and the call from an error of the file system: the caller
// names the file.
func plain(err error) error {
	var pathError *fs.PathError
	var linkError *os.LinkError
	switch {
	case errors.As(err, &pathError):
		return pathError.Err
	case errors.As(err, &linkError):
		return linkError.Err
	default:
		return err
	}
}
