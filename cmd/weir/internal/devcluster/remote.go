package devcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/cmd/poll"
)

// killTimeout bounds the wait for the end of a killed process.
const killTimeout = 10 * time.Second

// Down ends the cluster in dir, whichever process owns it, and removes everything. It
// returns a description of the cluster that it found.
func Down(ctx context.Context, dir string, ending Ending) (string, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("stop cluster: %w", err)
	}
	record, err := Load(root)
	if err != nil {
		return "", fmt.Errorf("stop cluster: %w", err)
	}
	found := "a stale cluster"
	switch record.condition(Process.Alive) {
	case owned:
		found = fmt.Sprintf("weir dev up (pid %d)", record.Owner.Pid)
		if err := endOwner(ctx, record, ending); err != nil {
			return "", fmt.Errorf("stop cluster: %w", err)
		}
	case detached:
		found = "a detached cluster"
	}
	if err := vacate(root, ending); err != nil {
		return "", fmt.Errorf("stop cluster: %w", err)
	}
	return found, nil
}

// endOwner asks the owner to end the cluster, and kills the owner if it does not.
func endOwner(ctx context.Context, record *Record, ending Ending) error {
	if err := record.Owner.Signal(unix.SIGTERM); err != nil {
		return err
	}
	// Twice the timeout: the owner stops the agents, then the replicas.
	if Await(ctx, 2*ending.StopTimeout+killTimeout, func() bool { return !record.Owner.Alive() }) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return record.Owner.Signal(unix.SIGKILL)
}

// Kill ends a member's process with kill -9 and waits until it is gone.
func Kill(dir, name string) error { return act("kill", dir, name, alive(Process.kill)) }

// Pause freezes a member's process until Resume.
func Pause(dir, name string) error {
	return act("pause", dir, name, alive(func(p Process) error { return p.Signal(unix.SIGSTOP) }))
}

// Resume continues a member's paused process. It is no error if the process has ended.
func Resume(dir, name string) error {
	return act("resume", dir, name, func(p Process) error { return p.Signal(unix.SIGCONT) })
}

// act does something to a member's process.
func act(what, dir, name string, do func(Process) error) error {
	m, err := LoadMember(dir, name)
	if err == nil {
		err = do(m.Process)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, name, err)
	}
	return nil
}

// alive wraps `do` in a function that returns an error for a process that does not run.
func alive(do func(Process) error) func(Process) error {
	return func(p Process) error {
		if !p.Alive() {
			return errors.New("not running")
		}
		return do(p)
	}
}

func (p Process) kill() error {
	if err := p.Signal(unix.SIGKILL); err != nil {
		return err
	}
	if !Await(context.Background(), killTimeout, func() bool { return !p.Alive() }) {
		return fmt.Errorf("kill process %d: still running after %v", p.Pid, killTimeout)
	}
	return nil
}

// StartMember restarts a member that is not running, waits until it is up, and returns its
// process.
func StartMember(ctx context.Context, dir, name string, timeout time.Duration) (started Process, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", name, err)
		}
	}()
	root, err := filepath.Abs(dir)
	if err != nil {
		return Process{}, err
	}
	err = edit(layout{root}, func(record *Record) error {
		m, err := record.member(name)
		if err != nil {
			return err
		}
		if m.Process.Alive() {
			return fmt.Errorf("already running (pid %d)", m.Process.Pid)
		}
		switch record.condition(Process.Alive) {
		case owned:
			// The owner starts the member, so that the member ends with it.
			m.Asked++
			return nil
		case detached:
			m.Asked++
			started, err := launch(record.Program, m, false, nil)
			m.begun(started, err)
			return nil
		default:
			return fmt.Errorf("%w: all of its processes have ended; weir dev up restarts it", ErrNone)
		}
	})
	if err != nil {
		return Process{}, err
	}
	return awaitMember(ctx, root, name, timeout)
}

// awaitMember waits until the requested start of a member is done.
func awaitMember(ctx context.Context, root, name string, timeout time.Duration) (Process, error) {
	var process Process
	var failure error
	done := Await(ctx, timeout, func() bool {
		m, err := LoadMember(root, name)
		switch {
		case err != nil:
			failure = err
		case m.Started != m.Asked:
			return false
		case m.Failure != "":
			failure = errors.New(m.Failure)
		case m.Ready():
			process = m.Process
		case !m.Process.Alive():
			failure = fmt.Errorf("%w; last log lines:\n%s", errEnded, m.Tail())
		default:
			return false
		}
		return true
	})
	if !done {
		return Process{}, errors.Join(ctx.Err(), fmt.Errorf("not up after %v", timeout))
	}
	return process, failure
}

// endAndRemove ends all processes of a cluster and removes everything. The caller holds the
// lock.
func endAndRemove(paths layout, record *Record, ending Ending) error {
	// Agents first: they report to the leader how their jobs end.
	for _, kind := range []Kind{Agent, Replica} {
		if err := endAll(record, kind, ending.StopTimeout); err != nil {
			return err
		}
	}
	for _, m := range record.Members {
		if _, err := os.Stat(m.Data); m.Kind != Agent || err != nil {
			continue
		}
		if err := ending.Sweep(m); err != nil {
			return fmt.Errorf("clean up after agent %s: %w", m.Name, err)
		}
	}
	if ending.Preserve != "" {
		if err := os.Rename(paths.dev(), ending.Preserve); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return remove(paths)
}

func endAll(record *Record, kind Kind, timeout time.Duration) error {
	alive := func() []Process {
		var list []Process
		for _, m := range record.Members {
			if m.Kind == kind && m.Process.Alive() {
				list = append(list, m.Process)
			}
		}
		return list
	}
	for _, p := range alive() {
		if err := p.Signal(unix.SIGTERM); err != nil {
			return err
		}
	}
	Await(context.Background(), timeout, func() bool { return len(alive()) == 0 })
	for _, p := range alive() {
		if err := p.kill(); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the cluster's files, but not the folder, which is locked.
func remove(paths layout) error {
	if err := os.Remove(SettingsFile(paths.root)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(paths.files()) // unless it holds what operations have written
	return os.RemoveAll(paths.dev())
}

// vacate ends the cluster in a folder, and removes the folder too unless it holds other
// files.
func vacate(root string, ending Ending) error {
	err := locked(root, func() error {
		record, err := Load(root)
		if err != nil {
			return err
		}
		if err := endAndRemove(layout{root}, record, ending); err != nil {
			return err
		}
		_ = os.Remove(root)
		return nil
	})
	if errors.Is(err, ErrNone) || errors.Is(err, fs.ErrNotExist) {
		// Another process has already ended the cluster.
		return nil
	}
	return err
}

// Await polls done for at most timeout, and reports whether it returned true.
func Await(ctx context.Context, timeout time.Duration, done func() bool) bool {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := poll.Every(limited, pollPeriod, func() (bool, error) { return done(), nil })
	return err == nil || ctx.Err() == nil && done()
}
