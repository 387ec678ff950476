// Package witness is the program of a run's jobs. Each job records, where Weir cannot touch it, that
// it runs, and that no other attempt of its cookie runs.
//
// A witness trusts nothing that Weir says except its own identity. It locks a file of its cookie.
// If the lock is held already, it records that and goes on, so that what happens next is
// recorded as well.
package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/chaos/history"
)

// tickPeriod is how often a witness records that it is alive. The time of its death, if it is
// killed, is known to that precision.
const tickPeriod = 50 * time.Millisecond

// Verb is the hidden command by which a job becomes a witness.
const Verb = "witness"

// locks is the folder of the lock files.
const locks = "locks"

// Prepare makes in dir what witnesses write to. Each of them may run as another user.
func Prepare(dir string) error {
	path, folder := filepath.Join(dir, history.WitnessFile), filepath.Join(dir, locks)
	log, err := history.Create(path)
	if err == nil {
		// The umask may have cleared bits.
		err = errors.Join(log.Close(), os.Chmod(path, 0o666), os.Mkdir(folder, 0o777), os.Chmod(folder, 0o777))
	}
	if err != nil {
		return fmt.Errorf("prepare for witnesses: %w", err)
	}
	return nil
}

// Run runs a witness for a time. The witness writes to dir, which Prepare has prepared. getenv returns the environment variables
// that Weir sets for jobs.
func Run(ctx context.Context, dir string, length time.Duration, getenv func(string) string) (err error) {
	sight, err := identify(getenv)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	log, err := history.Create(filepath.Join(dir, history.WitnessFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	note := func(what string) error {
		sight.What, sight.At = what, history.Now()
		return log.Write(sight)
	}
	lock, err := os.OpenFile(filepath.Join(dir, locks, lockName(sight)), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	// The next attempt may be another user. Only the first one's user can change the mode.
	_ = lock.Chmod(0o666)
	// The kernel unlocks when the process is gone, however it ended.
	defer lock.Close()
	switch err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		if err := note(history.Locked); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("witness: lock %s: %w", lock.Name(), err)
	}
	if err := note(history.Begin); err != nil {
		return err
	}
	ticks := time.NewTicker(tickPeriod)
	defer ticks.Stop()
	over := time.After(length)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
			if err := note(history.Tick); err != nil {
				return err
			}
		case <-over:
			return note(history.End)
		}
	}
}

// identify says which attempt this process is.
func identify(getenv func(string) string) (history.Sight, error) {
	sight := history.Sight{
		Operation: getenv("WEIR_OPERATION_ID"), Task: getenv("WEIR_TASK_NAME"), Job: getenv("WEIR_JOB_ID"), Pid: os.Getpid(),
	}
	var err error
	if sight.Cookie, err = strconv.Atoi(getenv("WEIR_JOB_COOKIE")); err != nil {
		return sight, fmt.Errorf("WEIR_JOB_COOKIE: %w", err)
	}
	if sight.Operation == "" || sight.Task == "" || sight.Job == "" {
		return sight, errors.New("WEIR_OPERATION_ID, WEIR_TASK_NAME or WEIR_JOB_ID is empty: only Weir runs witnesses, as jobs")
	}
	return sight, nil
}

// lockName is the name of the cookie's lock file.
func lockName(s history.Sight) string {
	return "lock-" + strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return '_'
		}
		return r
	}, fmt.Sprintf("%s-%s-%d", s.Operation, s.Task, s.Cookie))
}
