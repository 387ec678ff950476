package recordlog

import (
	"errors"
	"os"
	"path/filepath"
)

// Create creates a file with this content, open for appending.
func Create(path string, content []byte) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(content); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Commit syncs a file and renames it to path, in the same folder. A crash leaves the old
// file or the new one.
func Commit(file *os.File, path string) error {
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the entries of a folder durable.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
