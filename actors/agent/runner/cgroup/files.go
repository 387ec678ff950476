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

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
)

// folders lists the directories of a placement, once each: v1 controllers may
// share a hierarchy.
func folders(place proxyproto.Placement) []string {
	var list []string
	seen := make(map[string]bool)
	for _, folder := range []string{place.Unified, place.Memory, place.CPU, place.Pids} {
		if folder != "" && !seen[folder] {
			seen[folder] = true
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
	_, err := again(func() (int, error) { return 0, unix.Rmdir(folder) })
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
	}
	return nil
}

// open opens a control file without what an *os.File does to wait for it: control files
// never block, and there are some thirty to open a job.
func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// shut closes what was only read.
func shut(fd int) { _ = unix.Close(fd) }

// writeFile sets a control file. It never makes one.
func writeFile(folder, name, value string) error {
	path := filepath.Join(folder, name)
	fd, err := open(path, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = again(func() (int, error) { return unix.Write(fd, []byte(value)) })
	if closeErr := unix.Close(fd); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("%w (value %q)", &fs.PathError{Op: "write", Path: path, Err: err}, value)
	}
	return nil
}

// again repeats a system call that a signal has cut off.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// usualFile is more than most control files have, in bytes.
const usualFile = 2 << 10

// readFile reads a control file.
func readFile(path string) ([]byte, error) {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer shut(fd)
	data := make([]byte, 0, usualFile)
	for {
		n, err := again(func() (int, error) { return unix.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) == cap(data) {
			data = slices.Grow(data, cap(data))
		}
	}
}

// readInt reads a control file with one number; "max" is the largest.
func readInt(folder, name string) (int64, error) {
	data, err := readFile(filepath.Join(folder, name))
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
	data, err := readFile(path)
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

// readPressure reads for how many microseconds in all some of a group had to wait for a
// resource.
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
