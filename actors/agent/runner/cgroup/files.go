package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/actors/agent/runner/proxyproto"
)

// folders lists the directories of a placement, once each: v1 controllers may
// share a hierarchy.
func folders(place proxyproto.Placement) []string {
	var list []string
	for _, folder := range []string{place.Unified, place.Memory, place.CPU, place.Pids} {
		if folder != "" && !slices.Contains(list, folder) {
			list = append(list, folder)
		}
	}
	return list
}

func makeFolder(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// removeFolders removes empty groups; a missing one is fine.
func removeFolders(place proxyproto.Placement) error {
	var errs []error
	for _, folder := range folders(place) {
		if err := removeFolder(folder); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func removeFolder(folder string) error {
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile writes to a control file. It never creates one.
func writeFile(folder, name, value string) error {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("%w (value %q)", err, value)
	}
	return nil
}

// readInt reads a control file with one number; "max" is the largest.
func readInt(folder, name string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return 1<<63 - 1, nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(folder, name), err)
	}
	return value, nil
}

func readWords(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

// readKeyed reads a control file of lines "key number".
func readKeyed(folder, name string) (map[string]int64, error) {
	words, err := readWords(filepath.Join(folder, name))
	if err != nil {
		return nil, err
	}
	if len(words)%2 != 0 {
		return nil, fmt.Errorf("%s: %d words, want pairs", filepath.Join(folder, name), len(words))
	}
	values := make(map[string]int64, len(words)/2)
	for i := 0; i < len(words); i += 2 {
		value, err := strconv.ParseInt(words[i+1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", filepath.Join(folder, name), words[i], err)
		}
		values[words[i]] = value
	}
	return values, nil
}

// readPressure reads the total time in which some task of a group waited for a resource, in
// microseconds.
func readPressure(folder, name string) (int64, error) {
	words, err := readWords(filepath.Join(folder, name))
	if err != nil {
		return 0, err
	}
	// "some avg10=0.00 avg60=0.00 avg300=0.00 total=0 full ..."
	for _, word := range words {
		if total, is := strings.CutPrefix(word, "total="); is {
			return strconv.ParseInt(total, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no total", filepath.Join(folder, name))
}
