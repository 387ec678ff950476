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

// local is paths that replicas and nodes see alike.
type local struct {
	roots []string
	// step is called before each step that is done with files, in tests.
	step func()
}

// allowed refuses what is outside of the folders that may be used, whatever links lead
// there. What name stands for need not exist.
func (l *local) allowed(name string) error {
	_, _, err := l.find(name)
	return err
}

// find returns the folder that may be used that name leads to, or below, and the names below
// it, of which none is a link now. What name stands for need not exist.
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

// resolve follows the links of a path as far as there is anything.
func resolve(name string) (string, error) {
	found, err := filepath.EvalSymlinks(name)
	if parent := filepath.Dir(name); err != nil && parent != name && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		found, err = resolve(parent)
		return filepath.Join(found, filepath.Base(name)), err
	}
	return found, err
}

// open holds a folder. Links in its path are followed to what may be used, and from there on
// none is: whoever changes names below it at this very moment leads to nothing else.
func (l *local) open(path string) (*folder, error) {
	root, below, err := l.find(path)
	if err != nil {
		return nil, err
	}
	return l.enter(root, below, path)
}

// enter holds what find has found.
func (l *local) enter(root, below, path string) (*folder, error) {
	if l.step != nil {
		l.step()
	}
	// This has a folder mounted that is mounted at its first use. What the answer is, is seen
	// by who holds it.
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

// plain drops the name and the call of an error of the file system: who returns it names
// the file.
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
