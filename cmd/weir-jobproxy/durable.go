package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeWhole writes value as JSON so that nobody sees a part of it. After a
// power failure it may be lost.
func writeWhole(folder, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// writeDurably writes value as JSON so that after a power failure the file is
// there whole, or not at all.
func writeDurably(folder, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	path := filepath.Join(folder, name)
	if err := writeSynced(path+".new", data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	parent, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeSynced(path string, data []byte) error {
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
