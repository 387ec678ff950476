package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeJSON writes a file atomically: readers never see part of it, and it is there and complete after
// a power failure.
func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err == nil {
		err = writeFile(path+".new", data)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

func writeFile(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder makes the names in a folder survive a power failure.
func syncFolder(path string) error { return syncOpened(os.Open(path)) }

// syncOpened does the same for a folder that has just been opened, and closes it.
func syncOpened(folder *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
