package cgroup

import (
	"errors"
	"fmt"
	"io"
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
	if err := unix.Rmdir(folder); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
	}
	return nil
}

// control is an open control file, without the support for waiting that an *os.File has: control
// files never block, and a job opens some thirty of them.
type control struct {
	path string
	fd   int
}

func openControl(path string, flags int) (f control, err error) {
	f.path = path
	err = f.call("open", func() (err error) {
		f.fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0)
		return err
	})
	return f, err
}

// call repeats a system call that a signal has interrupted.
func (f control) call(name string, call func() error) error {
	err := call()
	for errors.Is(err, unix.EINTR) {
		err = call()
	}
	if err != nil {
		return &fs.PathError{Op: name, Path: f.path, Err: err}
	}
	return nil
}

// Read implements io.Reader.
func (f control) Read(data []byte) (n int, err error) {
	err = f.call("read", func() (err error) {
		n, err = unix.Read(f.fd, data)
		return err
	})
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// writeFile writes to a control file. It never creates one.
func writeFile(folder, name, value string) error {
	f, err := openControl(filepath.Join(folder, name), unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	return errors.Join(f.write(value), unix.Close(f.fd))
}

func (f control) write(value string) error {
	err := f.call("write", func() error {
		_, err := unix.Write(f.fd, []byte(value))
		return err
	})
	if err != nil {
		return fmt.Errorf("%w (value %q)", err, value)
	}
	return nil
}

// readFile reads a control file.
func readFile(path string) ([]byte, error) {
	f, err := openControl(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, unix.Close(f.fd))
}

// readInt reads a control file with one number; "max" is read as the largest number.
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
	return strings.Fields(string(data)), err
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
