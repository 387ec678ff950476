package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

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
