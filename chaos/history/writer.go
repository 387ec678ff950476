package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Now is the current time, on the clock of all streams.
func Now() int64 {
	var t unix.Timespec
	// This fails only for clocks that the kernel lacks.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t); err != nil {
		panic(fmt.Sprintf("read CLOCK_MONOTONIC_RAW: %v", err))
	}
	return t.Nano()
}

// Writer appends to one stream. It is safe for concurrent use, also by several
// processes: a line is one write.
type Writer struct {
	mu   sync.Mutex
	file *os.File
	err  error
}

// Create opens the stream in path.
func Create(path string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write history: %w", err)
	}
	return &Writer{file: file}, nil
}

// Write appends item. The first error is returned by Close too.
func (w *Writer) Write(item any) error {
	line, err := json.Marshal(item)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, err = w.file.Write(append(line, '\n'))
	}
	if err != nil {
		err = fmt.Errorf("write history: %w", err)
		if w.err == nil {
			w.err = err
		}
	}
	return err
}

// Close ends the stream.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.file.Close())
}

// Writers are the writers of a run's streams, by file name.
type Writers map[string]*Writer

// CreateAll opens streams of the run in dir.
func CreateAll(dir string, files ...string) (Writers, error) {
	all := make(Writers)
	for _, name := range files {
		w, err := Create(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all[name] = w
	}
	return all, nil
}

// Close closes all streams.
func (w Writers) Close() error {
	var errs []error
	for _, one := range w {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// Load reads every stream of the run in dir; one that is missing is empty.
func Load(dir string) (*Run, error) {
	var run Run
	return &run, errors.Join(
		load(dir, ClientFile, &run.Calls), load(dir, WitnessFile, &run.Sights), load(dir, NemesisFile, &run.Acts),
		load(dir, StateFile, &run.Operations), load(dir, GrantFile, &run.Grants), load(dir, AgentFile, &run.Entries),
		load(dir, HeldFile, &run.Held), load(dir, LeftoversFile, &run.Leftovers), load(dir, LogFile, &run.LogLines),
		load(dir, AskFile, &run.Asks), load(dir, RightsFile, &run.Turns), load(dir, DeedFile, &run.Deeds),
		load(dir, HashFile, &run.Hashes), load(dir, SimulatedFile, &run.Simulated),
	)
}

func load[T any](dir, name string, into *[]T) error {
	file, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if *into, err = Read[T](file); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil
}
